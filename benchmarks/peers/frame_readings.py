"""What pandas or AutoGluon makes of tables, and what trees then answer right.

python frame_readings.py NAME FOLDER, where NAME is pandas or autogluon, and each folder
in FOLDER has a train.csv, a test.csv and the latter's labels in labels.json. It runs in
any environment that has what it reads with, and scikit-learn: nothing of polydom is
imported. The answer is in JSON.
"""

import json
import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

Reading = tuple[Any, Any, dict[str, str]]  # two tables, and what each column became


def pandas_reading(train: Any, test: Any) -> Reading:
    """Take the types that read_csv gives; words are categories."""
    import pandas as pd

    said = {}
    for name in train:
        cells = train[name]
        said[name] = str(cells.dtype)
        if not pd.api.types.is_numeric_dtype(cells):
            known = cells.dropna().unique()
            said[name] = f"{len(known)} words"
            if len(known) > 255:  # which the trees refuse
                said[name] += ", left out"
                train, test = train.drop(columns=name), test.drop(columns=name)
                continue
            for table in (train, test):
                table[name] = pd.Categorical(table[name], known)
    return train, test, said


def autogluon_reading(train: Any, test: Any) -> Reading:
    """Take the features that its pipeline makes by default."""
    generators: Any = import_module("autogluon.features.generators")
    made = generators.AutoMLPipelineFeatureGenerator(verbosity=0)
    names = [*train]
    train, test = made.fit_transform(train), made.transform(test)
    told = made.feature_metadata_in
    said = {}
    for name in names:
        if name not in told.get_features():
            said[name] = "left out"
            continue
        special = ", ".join(told.get_feature_types_special(name))
        raw = told.get_feature_type_raw(name)
        said[name] = f"{raw} ({special})" if special else raw
    return train, test, said


NEEDED = {"pandas": "pandas", "autogluon": "autogluon.features.generators"}
READINGS: dict[str, Callable[[Any, Any], Reading]] = {
    "pandas": pandas_reading,
    "autogluon": autogluon_reading,
}


def judge(folder: Path, reading: Callable[[Any, Any], Reading]) -> dict[str, Any]:
    """Read one table as it comes, and count what trees answer right of the other."""
    import pandas as pd
    from sklearn.ensemble import HistGradientBoostingClassifier

    try:
        frames = [pd.read_csv(folder / name) for name in ("train.csv", "test.csv")]
        labels = frames[0].pop("label").astype(str)
        train, test, said = reading(frames[0], frames[1].drop(columns="label"))
        if not len(train.columns):  # the trees then answer with the commonest label
            train["nothing"] = test["nothing"] = 0
        model = HistGradientBoostingClassifier(
            categorical_features="from_dtype", random_state=0
        )
        answers = model.fit(train, labels).predict(test).tolist()
        drawn = json.loads((folder / "labels.json").read_text())
        right = sum(a == b for a, b in zip(answers, drawn, strict=True)) / len(drawn)
    except Exception as error:  # which the table is to show, whatever it is
        return {"error": type(error).__name__, "columns": {}}
    return {"accuracy": right, "columns": {str(k): v for k, v in said.items()}}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    name, place = sys.argv[1:]
    import_module(NEEDED[name])  # at once, not after all that is read with it
    folders = sorted(path for path in Path(place).iterdir() if path.is_dir())
    print(json.dumps({path.name: judge(path, READINGS[name]) for path in folders}))
