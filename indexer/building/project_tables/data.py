"""`[data]`: the source of the labelled items."""

from typing import Literal

from msgspec import Struct

from polydom.features.errors import BadInput, BadProject
from polydom.features.readers.csv_file import check_form
from polydom.features.tables.dates import DateOrder
from polydom.features.tables.records import Decimal

from .numbers import Positive


class Data(Struct, frozen=True, forbid_unknown_fields=True):
    """The source of the labelled items: exactly one of the first four keys.

    Attributes
    ----------
    images
        A folder with one sub-folder of image files for each class.
    table
        A CSV, Parquet or JSON Lines file, or a folder of Parquet files; each row is a
        record.
    texts
        A JSON Lines file, each line an object with the text and its label; or a folder
        with one sub-folder of text files for each class.
    items
        `module:function`: a function in a Python file beside the project file. It
        yields (item, label) or (item, label, group). An item is an image as bytes, a
        text as str, or a record as a mapping.
    labels
        A CSV or Parquet file with the labels of a folder's images or texts. Each item's
        file is named in the first column that has the name of a file in its first row;
        the columns of label, group, time and weight are passed over.
    test
        A second source of items, to measure accuracy on: anything that `images`,
        `table`, `texts` or `items` may name, or another file of labels if `labels` is
        given. All other items are trained on, except items set aside for exits.
    unlabelled
        A source of items without labels: a folder of images, a table with the same
        columns, a folder or JSON Lines file of texts, or `module:function` that yields
        items. Early exits need no labels: they are fitted and calibrated on these items
        in addition to those set aside, so that exits may be promised where labelled
        items are too few. Nothing else uses these items. Their groups, in the column or
        key of `group`, are taken to be other groups than those of labelled items.
    split
        "random" draws the test items at random, in whole groups and with about equal
        shares of classes. "time" tests on the newest items, of which the very newest
        are set aside for exits.
    weight
        Column (or key) with the weight of each item, above 0. Learners are fitted with
        these weights, and accuracy is measured with them. Exits do not use weights:
        `exits.alpha` is a share of the number of items. With weights, `learner =
        "auto"` races only learners that accept them.
    label
        Column (or key) of the label.
    text
        Key of the text.
    group
        Column (or key) of the group. Items of one group, such as images of one patient,
        are never divided between training and testing.
    time
        Column (or key) of the time, for `split = "time"`: a number, or a date in ISO
        8601. A group is as new as its newest item.
    ignore
        Columns of a table that are not features.
    separator
        Character between the cells of a CSV file, such as ";", if the build finds the
        wrong one.
    encoding
        Character encoding of a CSV file or of texts, such as "latin-1", if the build
        finds the wrong one.
    missing
        Words for an empty cell of a table, such as `["unknown", "-1"]`. In columns of
        numbers and dates, common words such as `NA` always mean an empty cell.
    decimal
        Decimal mark, "." or ",", if numbers such as `1,234` are ambiguous.
    date_order
        Order of month and day, "MDY" or "DMY", if all dates of a column are ambiguous,
        such as `01/02/2024`.
    on_bad_item
        "skip" leaves unusable items out, and reports their number and the reasons;
        "stop" stops the build.
    on_rare_class
        What to do with rare classes, which have too few independent items: "stop" names
        them and stops the build, "skip" leaves their items out, "merge" makes them one
        class named "other", and "train" trains on their items but never tests on them.
    rare_below
        Minimum number of independent items of a class that is not rare. The default is
        the number needed to divide the class for training and testing.
    """

    images: str | None = None
    table: str | None = None
    texts: str | None = None
    items: str | None = None
    labels: str | None = None
    test: str | None = None
    unlabelled: str | None = None
    split: Literal["random", "time"] = "random"
    label: str = "label"
    text: str = "text"
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    ignore: list[str] = []
    separator: str | None = None
    encoding: str | None = None
    missing: list[str] = []
    decimal: Decimal | None = None
    date_order: DateOrder | None = None
    on_bad_item: Literal["skip", "stop"] = "skip"
    on_rare_class: Literal["stop", "skip", "merge", "train"] = "stop"
    rare_below: Positive | None = None

    @property
    def divided(self) -> bool:
        """True if the build draws the test items at random."""
        return self.test is None and self.split == "random"

    @property
    def sources(self) -> list[str]:
        """Names of the source of all items, and of `test` if it is given."""
        (first,) = self.given
        return [self.labels or first, *([self.test] if self.test else [])]

    @property
    def given(self) -> list[str]:
        """Names of the sources of all items; a project needs exactly one."""
        named = self.images, self.table, self.texts, self.items
        return [name for name in named if name is not None]

    @property
    def treats_rare(self) -> bool:
        """True if a key says what to do with rare classes."""
        return self.on_rare_class != "stop" or self.rare_below is not None

    def check(self) -> None:
        """Raise BadProject for keys that do not fit together."""
        if len(self.given) > 1:
            self.check_source()
        if self.labels is not None and self.images is None and self.texts is None:
            raise BadProject("[data] labels is for a folder of images or texts")
        if (self.split == "time") != (self.time is not None):
            given, lacking = ("time", "split = 'time'")
            if self.time is None:
                given, lacking = ("split = 'time'", "time, the column with the time")
            raise BadProject(f"[data] {given} needs {lacking}")
        if self.items is not None and self.split == "time":
            raise BadProject("[data] items yields no times; split = 'time' needs some")
        if self.items is not None and self.weight is not None:
            raise BadProject("[data] items yields no weights; weight names some")
        if self.split == "time" and self.test is not None:
            raise BadProject("[data] test and split = 'time' both say what to test on")
        try:
            check_form(self.separator, self.encoding)
        except BadInput as error:
            raise BadProject(f"[data] {error}") from error

    def check_source(self, *, given: bool = False) -> None:
        """Raise BadProject unless there is exactly one source of items.

        The source is either a data set passed to the build, if `given` is true, or a
        key of this table.
        """
        if given and self.given:
            raise BadProject("[data] says where items are, and a data set came, too")
        if not given and len(self.given) != 1:
            raise BadProject("[data] needs exactly one of images, table, texts, items")
