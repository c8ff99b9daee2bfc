"""Servers to compare with, each as its documentation shows it; one process for each.

python peer_servers.py NAME PORT FOLDER, where NAME is one of `CONTENDERS` and FOLDER
has the files of record_index.py. It runs in any environment that has what the
contender needs: nothing of polydom is imported but by the contenders of that name.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATH = "/v1/predict"
NAMES = tuple(f"column_{k}" for k in range(14))
LABELS = ("no", "yes")


def hello(port: int, folder: Path) -> None:
    """A bare ASGI application with a fixed answer."""
    head = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"text/plain"), (b"content-length", b"5")],
    }
    body = {"type": "http.response.body", "body": b"hello"}

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await send(head)
        await send(body)

    serve(application, port)


def granian(port: int, folder: Path) -> None:
    """The same application with Granian, one worker, its default event loop."""
    from granian import Granian

    Granian("peer_servers:granian_hello", port=port, interface="asgi").serve()


async def granian_hello(scope: Any, receive: Any, send: Any) -> None:
    """The application that Granian imports."""
    if scope["type"] != "http":
        return
    head = {
        "type": "http.response.start",
        "status": 200,
        "headers": [(b"content-type", b"text/plain"), (b"content-length", b"5")],
    }
    await send(head)
    await send({"type": "http.response.body", "body": b"hello"})


def echo(port: int, folder: Path) -> None:
    """FastAPI with pydantic, and no model."""
    serve(fastapi(lambda row: (0, [1.0 - row[0] * 0, row[0] * 0])), port)


def lightgbm(port: int, folder: Path) -> None:
    """FastAPI with pydantic and LightGBM."""
    serve(fastapi(lightgbm_model(folder)), port)


def sklearn(port: int, folder: Path) -> None:
    """FastAPI with pydantic and scikit-learn's GradientBoosting of the same shape."""
    import numpy as np
    from sklearn.ensemble import GradientBoostingClassifier

    rows = np.array(json.loads((folder / "rows.json").read_text()))
    answers = lightgbm_model(folder)
    labels = [answers(row)[0] for row in rows.tolist()]
    fitted = GradientBoostingClassifier(
        n_estimators=500, max_depth=5, learning_rate=0.05
    ).fit(rows, labels)

    def predict(row: list[float]) -> tuple[int, list[float]]:
        shares = fitted.predict_proba(np.array([row]))[0].tolist()
        return int(shares[1] > shares[0]), shares

    serve(fastapi(predict), port)


def lightgbm_model(folder: Path) -> Callable[[list[float]], tuple[int, list[float]]]:
    """The booster that the index was made of, on one thread."""
    import lightgbm
    import numpy as np

    booster = lightgbm.Booster(model_file=folder / "model.txt")

    def predict(row: list[float]) -> tuple[int, list[float]]:
        share = float(booster.predict(np.array([row]), num_threads=1)[0])
        return int(share > 0.5), [1 - share, share]

    return predict


def fastapi(predict: Callable[[list[float]], tuple[int, list[float]]]) -> Any:
    """An application whose request and answer are pydantic models."""
    from fastapi import FastAPI
    from pydantic import BaseModel, create_model

    fields: dict[str, Any] = dict.fromkeys(NAMES, (float, ...))
    Record = create_model("Record", **fields)
    Ask = create_model("Ask", record=(Record, ...), budget_ms=(float, 50.0))

    class Answer(BaseModel):
        label: str
        scores: dict[str, float]

    application = FastAPI()

    async def answer(ask: Any) -> Answer:
        row = [getattr(ask.record, name) for name in NAMES]
        code, scores = predict(row)
        return Answer(label=LABELS[code], scores=dict(zip(LABELS, scores, strict=True)))

    answer.__annotations__["ask"] = Ask
    application.post(PATH)(answer)
    return application


def serve(application: Any, port: int) -> None:
    """Run an ASGI application as polydom does: one process, uvloop, httptools."""
    import uvicorn

    options: dict[str, Any] = {"loop": "uvloop", "http": "httptools"}
    options |= {"access_log": False, "log_level": "warning"}
    uvicorn.run(application, port=port, lifespan="off", **options)


def polydom(
    port: int, folder: Path, index: str = "records.pdx", metered: bool = True
) -> None:
    """The server under test."""
    from polydom.server.app import create_app
    from polydom.server.metrics.counts import Metrics
    from polydom.server.ops.server import listen, run

    if not metered:
        Metrics.answered = lambda *arguments: None  # type: ignore[method-assign]
        Metrics.answered_together = lambda *arguments: None  # type: ignore[method-assign]
    with listen("127.0.0.1", port) as listener:
        run(create_app(folder / index), listener)


def polydom_unmetered(port: int, folder: Path) -> None:
    """The same, without counting anything."""
    polydom(port, folder, metered=False)


def default(port: int, folder: Path) -> None:
    """The same with an index of default_table.py."""
    polydom(port, folder, "default.pdx")


def litserve(port: int, folder: Path) -> None:
    """LitServe with LightGBM, one worker."""
    from lit_service import Api
    from litserve import LitServer

    server = LitServer(Api(folder), accelerator="cpu")
    server.run(port=port, generate_client_file=False, log_level="warning")


def mlserver(port: int, folder: Path) -> None:
    """MLServer with its LightGBM runtime, inference in the server's own process."""
    from mlserver.cli import main

    own = folder / "mlserver"
    own.mkdir(exist_ok=True)
    model = {
        "name": "records",
        "implementation": "mlserver_lightgbm.LightGBMModel",
        "parameters": {"uri": str(folder / "model.txt")},
    }
    settings = {"host": "127.0.0.1", "http_port": port, "grpc_port": port + 1}
    settings |= {"metrics_port": port + 2, "parallel_workers": 0, "debug": False}
    (own / "model-settings.json").write_text(json.dumps(model))
    (own / "settings.json").write_text(json.dumps(settings))
    sys.argv = ["mlserver", "start", str(own)]
    main()


def bentoml(port: int, folder: Path) -> None:
    """BentoML with LightGBM, one worker."""
    import subprocess

    own = Path(__file__).with_name("bento_service.py")
    command = [sys.executable, "-m", "bentoml", "serve", f"{own.stem}:Records"]
    command += ["--port", str(port), "--working-dir", str(own.parent)]
    environment = {
        "POLYDOM_RECORDS": str(folder),
        "PATH": str(Path(sys.executable).parent),
    }
    sys.exit(subprocess.call(command, env=environment | {"BENTOML_DO_NOT_TRACK": "1"}))


CONTENDERS: dict[str, Callable[[int, Path], None]] = {
    "hello": hello,
    "granian": granian,
    "echo": echo,
    "lightgbm": lightgbm,
    "sklearn": sklearn,
    "polydom": polydom,
    "polydom_unmetered": polydom_unmetered,
    "default": default,
    "litserve": litserve,
    "mlserver": mlserver,
    "bentoml": bentoml,
}

if __name__ == "__main__":
    CONTENDERS[sys.argv[1]](int(sys.argv[2]), Path(sys.argv[3]))
