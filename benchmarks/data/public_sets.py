"""Where the public data sets are, and the checksums of what benchmarks read of them.

None of these addresses has been tried, as there was no network where they were written;
the checksums are those of the files that the results were measured on. Where there
are several addresses, the publisher's comes first.
"""

import gzip
import io
import itertools
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import NamedTuple

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases"
GITHUB = "https://raw.githubusercontent.com"
ADULT = f"{GITHUB}/gustapp/knn-classifier/048ab9e0d52f718e3213a74c5ad2507a70aeba05"
THYROID = f"{UCI}/thyroid-disease"
COSTS = (
    f"{GITHUB}/mcavus/Genetic-Algorithm-Classification/"
    "efebbdb624ddd5027f752ecb569c4734ee17e0e2"
)
H2O = f"{GITHUB}/h2oai/h2o-3/ffd7e30adec188628c0587f1210c9aaaebddd8bf"
SAS = (
    f"{GITHUB}/sassoftware/sas-viya-workbench-examples/"
    "f180274bbf5d5cfc3598cfa2696780a4c228ab4d"
)
LIGHTGBM = f"{GITHUB}/microsoft/LightGBM/bae0b7ba953341a32b2a9c5c5c437a1b976f576f"
SONGS = f"{GITHUB}/tulip-lab/flip03/fc6112ac1cb053199332ec1c99cb8b6567ea91a2"
MNIST = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)
STAYS = f"{GITHUB}/Linusaronsson/AFA-Benchmark/a07c8a3b6bf2527f66853e87b1929396e08e0501"
FILMS = "https://www.cs.cornell.edu/people/pabo/movie-review-data"
MESSAGES = f"{GITHUB}/ia4legos/MachineLearning/4287de2d8a05727f41bb949f2bd187e8becc7e3e"

Unpack = Callable[[bytes], bytes]


class Source(NamedTuple):
    """An address, and what makes a file's content of what it sends."""

    address: str
    unpack: Unpack = bytes


class File(NamedTuple):
    """A file of a set."""

    # Within the set's folder; one that ends in .gz or .xz is compressed there.
    name: str
    sha256: str  # Digest of the content, unpacked if the file is compressed
    sources: tuple[Source, ...]  # Addresses, tried in this order


def zipped(member: str) -> Unpack:
    """Take a file out of a zip archive."""
    return lambda sent: zipfile.ZipFile(io.BytesIO(sent)).read(member)


def first_lines(count: int) -> Unpack:
    """Take so many lines of a compressed file."""

    def unpack(sent: bytes) -> bytes:
        with gzip.open(io.BytesIO(sent)) as file:
            return b"".join(itertools.islice(file, count))

    return unpack


def texts_of(sent: bytes) -> bytes:
    """Make an archive of another's texts alone: in order, of no owner and no date."""
    made = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(sent)) as given,
        tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        members = [m for m in given if m.isfile() and m.name.endswith(".txt")]
        for member in sorted(members, key=lambda m: m.name):
            file = given.extractfile(member)
            assert file is not None
            text = file.read()
            info = tarfile.TarInfo("/".join(PurePosixPath(member.name).parts[-3:]))
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    return made.getvalue()


def mnist(name: str, sha256: str) -> File:
    """One of the four files."""
    sources = (Source(f"{mirror}/{name}", gzip.decompress) for mirror in MNIST)
    return File(name, sha256, tuple(sources))


SETS: dict[str, tuple[File, ...]] = {
    "adult": (
        File(
            "adult.data",
            "5b00264637dbfec36bdeaab5676b0b309ff9eb788d63554ca0a249491c86603d",
            (Source(f"{UCI}/adult/adult.data"),),
        ),
        File(
            "adult.test",
            "a2a9044bc167a35b2361efbabec64e89d69ce82d9790d2980119aac5fd7e9c05",
            (Source(f"{UCI}/adult/adult.test"),),
        ),
        File(
            "adult.names",
            "c248284c0b5de30c9e1958d6cdd168a34a654758b620e68f46aefa83fc0a576a",
            (Source(f"{UCI}/adult/adult.names"), Source(f"{ADULT}/adult.names")),
        ),
    ),
    "ann_thyroid_costs": (
        File(
            "ann-train.data",
            "3da53a156bda36cb0c97e9f4b6b111c9226c54c4aa00230de5604b787c47e3a6",
            (Source(f"{THYROID}/ann-train.data"), Source(f"{COSTS}/ann-train.data")),
        ),
        File(
            "ann-test.data",
            "c649ea19416e78c7996cfaaa2a9e281cb597d4b075aaa68c494fc3e4ee3aa30b",
            (Source(f"{THYROID}/ann-test.data"), Source(f"{COSTS}/ann-test.data")),
        ),
        File(
            "ann-thyroid.cost",
            "7cf3f71bd59fe5fe282a492050e67c68e2e355e5cd631030f224e1ec48337029",
            (
                Source(f"{THYROID}/costs/ann-thyroid.cost"),
                Source(f"{COSTS}/ann-thyroid.cost"),
            ),
        ),
    ),
    "covtype20k": (
        File(
            "covtype.20k.data.gz",
            "55ff5c8510624a2fe57838017f96caf86914223f131572edd35a038f3e85e43e",
            (
                Source(f"{H2O}/smalldata/covtype/covtype.20k.data"),
                Source(f"{UCI}/covtype/covtype.data.gz", first_lines(20_000)),
            ),
        ),
    ),
    "higgs": (
        File(
            "sas_higgs.csv.gz",
            "21f8b95e4aaed9e631a76d69c724bb0ca94456bc1ac01e18fd81b968dd3c9724",
            (Source(f"{SAS}/data/higgs.csv"),),
        ),
        File(
            "lightgbm_binary.train.gz",
            "41c42dc14f86960256bf872fc8ae6286c688b44f43b4057b29428787fc1e0444",
            (Source(f"{LIGHTGBM}/examples/binary_classification/binary.train"),),
        ),
        File(
            "lightgbm_binary.test.gz",
            "d99ebec91acd99638f00c727c251c947a1d17ddfcbea27bfef6b0dc5e5fb1db3",
            (Source(f"{LIGHTGBM}/examples/binary_classification/binary.test"),),
        ),
    ),
    "millionsong": (
        File(
            "millionsong.txt.gz",
            "5277c61e9337755b9556b1466601b78c67ecc8bfaeaa5b5658e7c70708048f24",
            (Source(f"{SONGS}/data/millionsong.txt"),),
        ),
    ),
    "mnist": (
        mnist(
            "train-images-idx3-ubyte.gz",
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        mnist(
            "train-labels-idx1-ubyte.gz",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        ),
        mnist(
            "t10k-images-idx3-ubyte.gz",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        mnist(
            "t10k-labels-idx1-ubyte.gz",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
    ),
    "physionet": (
        File(
            "physionet.csv.gz",
            "daca2ea78d228b93488f68938ab667a31e683adcbe916b77769633bc297aad91",
            (Source(f"{STAYS}/extra/data/misc/physionet.csv"),),
        ),
    ),
    "polarity": (
        File(
            "txt_sentoken.tar.xz",
            "7d29e8042f092c1184ce42ea3838a74946307e78f4e9e52bc403b970c79a7055",
            (Source(f"{FILMS}/review_polarity.tar.gz", texts_of),),
        ),
    ),
    "sms_spam": (
        File(
            "SMSSpamCollection",
            "7d039a24a6083ed9ef0f806ebad56bbb976e3aeb8de05669173bfdc4996c239d",
            (
                Source(
                    f"{UCI}/00228/smsspamcollection.zip", zipped("SMSSpamCollection")
                ),
                Source(f"{MESSAGES}/data/SMSSpamCollection"),
            ),
        ),
    ),
}
# what nobody says may be copied, or no sum is known of: where it is, how it has to lie
ELSEWHERE = {
    "credit": """\
"Default of Credit Card Clients" of the UCI repository, https://doi.org/10.24432/C55S3H,
30,000 customers and 23 columns. Save its sheet as {folder}/UCI_Credit_Card.csv.""",
    "kddcup99": """\
"KDD Cup 1999 Data" of the UCI repository, https://doi.org/10.24432/C51C7N. Put its
kddcup.data_10_percent.gz, 494,021 connections and 41 columns, in {folder}.""",
    "bank": """\
"Bank Marketing" of the UCI repository, https://doi.org/10.24432/C5K306. Put
bank-full.csv of its bank.zip, 45,211 calls and 16 columns, in {folder}.""",
    "scene15": """\
Its licence is not stated, so you have to get it yourself: the 15 scene categories of
Lazebnik, Schmid and Ponce (2006), 4,485 grey JPEGs, which its authors' pages and
https://figshare.com/articles/dataset/15-Scene_Image_Dataset/7007177 have given out.
Put the images at {folder}/train/LABEL/NAME.jpg, the usual 100 of each
class to train on, and at {folder}/test/LABEL/NAME.jpg.""",
}
