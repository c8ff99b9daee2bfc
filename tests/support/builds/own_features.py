"""A file of features of a user's own, which use each other and ready-made ones."""

MINE = """
from polydom.features import feature, step
from polydom.features.ready_made.text import hashed_words, words

SCALE = 2

def scaled(number):
    return SCALE * number

@step(needs=[words])
def lengths(words):
    return list(map(len, words))

@feature(needs=[lengths])
def longest(lengths):
    return [scaled(max(lengths, default=0))]

@feature(kind="text", name="vowels", declared={"usd": 0.5})
def count_vowels(text):
    return [sum(map(text.count, "aeiou"))]
"""
