"""A server that is told to stop lets HTTP and gRPC finish in the same time."""

import json
import socket
from pathlib import Path

import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from tests.support.indexes.served import FEATURES_FILE, SPAM, save_index
from tests.support.processes.raw_http import request, send, statuses
from tests.support.processes.servers import STOP_S, serving
from tests.support.waiting import wait_until

BODY = json.dumps({"text": SPAM}).encode()


def has_stopped(client: triton.InferenceServerClient) -> bool:
    try:
        client.is_server_live()
    except InferenceServerException:
        return True
    return False


def test_grpc_stops_while_a_request_over_http_is_still_under_way(
    tmp_path: Path,
) -> None:
    path, own = save_index(tmp_path), f"--features={FEATURES_FILE}"
    with serving(path, own, "--grpc-port=0", "--budget-ms=900") as (process, port):
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        assert statuses(send(port, request(b"/v1/predict", BODY))) == [200]
        whole = request(b"/v1/predict", BODY)
        with socket.create_connection(("127.0.0.1", port), STOP_S) as connection:
            connection.sendall(whole[:-9])
            with triton.InferenceServerClient(address) as client:
                assert client.is_server_live()
                process.terminate()
                # or the rest of the request comes too late
                wait_until(lambda: has_stopped(client))
            connection.sendall(whole[-9:])
            assert statuses(connection.recv(1 << 16)) == [200]
        process.communicate(timeout=STOP_S)
        assert process.returncode == 0
