"""Slow twins of the extraction of features."""

from typing import Any

import numpy as np

from polydom.features.feature import Feature, Step


def feature_value(feature: Feature, payload: object) -> list[float]:
    """Compute a feature by running its needs again each time, as float32."""

    def run(node: Feature | Step) -> Any:
        return node.function(*(map(run, node.needs) if node.needs else [payload]))

    return [float(np.float32(value)) for value in run(feature)]
