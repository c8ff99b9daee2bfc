"""Models being served: decoding, queue, admission, reload, counts."""
