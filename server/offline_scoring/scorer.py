"""A function from partitions of items to answers, for Spark, Ray, Dask and others."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from polydom.features.errors import BadInput
from polydom.features.threads import one_thread

from ..batch.batch_budget import BatchBudget, Numbered, Result
from ..batch.batch_plan import BatchPlan, amount_in, answer_by_plan
from ..runtime.known_columns import KnownColumns
from .item_rows import ItemColumns, require
from .output_row import (
    OF_PLAN,
    ScorableItem,
    Scored,
    arrow_batch,
    arrow_schema,
    as_item,
    check_kept,
    columns_of,
    row_of,
    spark_type,
)
from .score_items import answer
from .worker_index import IndexFile, WorkerIndex


class Scorer:
    """Classifies partitions of items, for engines that spread items over a cluster.

    A scorer is small enough to send to all machines, as it has only the path of the
    index. Each process opens the index once, and refuses another file at the path.
    While a scorer computes, numeric libraries use one thread.

    Parameters
    ----------
    index
        File of the index, at the same path on all machines.
    plan
        Plan of the batch: it decides each item by itself, so answers do not depend on
        the partitions.
    item_budget_s, item_budget
        Budget for an average item, instead of a plan: seconds, or an amount in the
        index's unit. A partition's budget is this value times the number of its items.
    column
        Column of images or texts; by default `image`, `image_base64` or `text`. For
        records: column of structures; by default each row is a record.
    keep
        Columns of the items to put before the answers' columns in the result.
    features
        Python files with your own features.
    exact
        True to evaluate models completely, so that every answer has scores. If True,
        a plan must have been made with `exact`, too.

    Attributes
    ----------
    columns
        Names of the answers' columns: fields of `Scored` except `item`, then `price`
        and `index_version`.

    Raises
    ------
    BadInput
        If neither or both of a plan and a budget are given, or arguments do not suit
        the index or each other.
    BadIndexFile
        If the index cannot answer.

    Examples
    --------
    ```python
    plan = BatchPlan.of("my.pdx", sizes, count=10**8, total_cost_s=1.8e6)
    scorer = Scorer("my.pdx", plan=plan, keep=["id"])
    spark_frame.mapInArrow(scorer.batches, scorer.ddl(spark_frame.schema))
    ray_data.map_batches(scorer.table, batch_format="pyarrow")
    dask_frame.map_partitions(scorer.frame, meta=scorer.meta(dask_frame))
    ```
    """

    def __init__(
        self,
        index: str | os.PathLike[str],
        *,
        plan: BatchPlan | None = None,
        item_budget_s: float | None = None,
        item_budget: float | None = None,
        column: str | None = None,
        keep: Sequence[str] = (),
        features: Sequence[Path] = (),
        exact: bool = False,
    ) -> None:
        self._file, package = IndexFile.of(index, features)
        self._plan = plan
        self._item_budget = 0.0
        if plan is None:
            unit = str(package.meta.get("unit", "s"))
            self._item_budget = amount_in(
                unit, ("item_budget_s", item_budget_s), ("item_budget", item_budget)
            )
        elif item_budget_s is not None or item_budget is not None:
            raise BadInput("a plan and a budget for each item exclude each other")
        else:
            plan.check(self._file.version, exact)
        self._exact = exact
        self._keep = tuple(keep)
        known = KnownColumns(package.features).names
        self._items = ItemColumns(package.kind, column, known, self._keep)
        self.columns = (*columns_of(package.numeric)[1:], *OF_PLAN)
        check_kept(self._keep, self.columns)

    def __call__(self, items: Iterable[ScorableItem]) -> list[dict[str, Any]]:
        """Answer a partition. Return a dict with the fields of `Scored` for each item.

        Raises BadIndexFile or BadFeature if another file is at the path of the index,
        or if the index cannot answer.
        """
        return [msgspec.structs.asdict(row) for row in self._score(list(items))]

    def batches(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Answer Arrow batches one by one, for Spark's `mapInArrow`.

        Each yielded batch has as many rows as its input batch; `schema` returns its
        schema. Raises the errors of `table`.
        """
        return map(self._batch, batches)

    def table(self, table: Any) -> Any:
        """Answer an Arrow table, for Ray Data's `map_batches`.

        Returns a table with as many rows as `table`; `schema` returns its schema.
        Raises BadInput if a column is missing, and the errors of `__call__`.
        """
        import pyarrow as pa

        scored = [self._batch(batch) for batch in table.to_batches()]
        return pa.Table.from_batches(scored, self.schema(table.schema))

    def frame(self, frame: Any) -> Any:
        """Answer a pandas DataFrame, for Dask's `map_partitions`.

        The result has the DataFrame's index. Its first columns are the unchanged
        columns `keep`. Raises the errors of `table`.
        """
        import pandas as pd
        import pyarrow as pa

        names = list(frame.columns)
        for name in self._keep:
            require(names, name)
        try:
            items = frame[self._items.among(names)]
            given = pa.Table.from_pandas(items, preserve_index=False)
        except pa.ArrowException as error:
            raise BadInput(f"no table can be made of the DataFrame: {error}") from error
        answers = [self._answers(batch) for batch in given.to_batches()]
        answered = pa.Table.from_batches(answers, arrow_schema(self.columns))
        # NumPy's integers and flags cannot represent missing values
        types = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
        found = answered.to_pandas(types_mapper=types.get)
        found.index = frame.index
        return pd.concat([frame[list(self._keep)], found], axis=1)

    def meta(self, frame: Any) -> Any:
        """Return an empty DataFrame with the columns of the answers to `frame`."""
        return self.frame(getattr(frame, "_meta", frame).iloc[:0])

    def schema(self, given: Any = None) -> Any:
        """Return the Arrow schema of the answers to items with the schema `given`.

        `given` has the types of the columns to keep. Raises BadInput if it lacks such a
        column.
        """
        import pyarrow as pa

        kept = []
        for name in self._keep:
            require([] if given is None else given.names, name)
            kept.append(given.field(name))
        return pa.schema([*kept, *arrow_schema(self.columns)])

    def ddl(self, given: Any = None) -> str:
        """Return the schema of the answers in Spark's SQL.

        `given` is the Spark schema of the items.
        """
        kept = []
        for name in self._keep:
            require([] if given is None else given.fieldNames(), name)
            kept.append(f"`{name}` {given[name].dataType.simpleString()}")
        own = [f"`{name}` {spark_type(name)}" for name in self.columns]
        return ", ".join([*kept, *own])

    def _batch(self, batch: Any) -> Any:
        """Answer an Arrow batch; return the columns to keep, then the answers."""
        import pyarrow as pa

        schema = self.schema(batch.schema)
        kept = [batch.column(name) for name in self._keep]
        answers = self._answers(batch).columns
        return pa.RecordBatch.from_arrays([*kept, *answers], schema=schema)

    def _answers(self, batch: Any) -> Any:
        rows = self._score(list(self._items.items(batch)))
        price = None if self._plan is None else self._plan.price
        version = self._file.version
        return arrow_batch(rows, self.columns, price=price, index_version=version)

    def _score(self, items: Sequence[ScorableItem]) -> list[Scored]:
        """Answer items. If there are none, the index is not opened."""
        if not items:
            return []
        opened = self._file.open()
        with one_thread():
            numbered = enumerate(as_item(opened.translator, item) for item in items)
            results = self._results(opened, numbered, len(items))
            return [row_of(opened.translator, result) for result in results]

    def _results(
        self, opened: WorkerIndex, items: Iterable[Numbered], count: int
    ) -> Iterator[Result]:
        planner = opened.translator.planner
        if self._plan is not None:
            return answer_by_plan(planner, opened.assigner(self._plan), items)
        amount = self._item_budget * count
        return answer(
            BatchBudget(planner, amount, count=count, exact=self._exact), items
        )
