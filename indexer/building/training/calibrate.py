"""Calibration of the candidates' class scores, and the choice of their thresholds."""

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from polydom.models.selection.arms import last_step

from ..candidates import Candidates
from ..prepare import Prepared
from ..resources import Resources
from .decision import Decision
from .fit_calibration import fit_calibration
from .train_sets import Trainer, TrainingTask

Floats = NDArray[np.float64]


def calibrate(
    candidates: Candidates, data: Prepared, trainer: Trainer, resources: Resources
) -> Trainer:
    """Fit a calibration of each candidate's scores on the tested items.

    Returns a trainer of the same sets whose models decide by it. The models that are
    trained again on all items take it over. For numbers, nothing is fitted.
    """
    if data.task == "regression":
        return trainer
    task, masks = trainer.task, candidates.masks
    tested, weights = trainer.tested, class_weights_of(trainer.task)
    held = task.codes[tested], task.weights_of(tested)
    groups = data.table.dataset.groups[tested]
    shift = None if weights is None else np.log(weights)
    decisions = dict[int, Decision]()
    with resources.progress.stage("calibrating scores", len(masks)) as on_progress:
        for done, mask in enumerate(masks):
            evidence, fitted = trainer.evidence(mask), None
            if evidence is not None:
                seed = data.project.seed
                fitted = fit_calibration(evidence, *held, groups, shift, seed)
            calibration = None if fitted is None else fitted.calibration
            own = task.metric.classes, calibration, None, weights, fitted
            decisions[mask] = Decision(*own)
            on_progress(done + 1)
    return trainer.deciding(decisions)


def class_weights_of(task: TrainingTask) -> Floats | None:
    """Return the weights (K,) of classes in the training of a task's learner.

    They are the project's class weights times those that the learner itself is set to.
    Returns None if all are equal.
    """
    classes = task.metric.classes
    weights = task.items.get("class_weights")
    found = np.ones(classes) if weights is None else weights.copy()
    codes = task.codes
    own = last_step(task.estimator()).get_params()
    named = own.get("class_weight")
    if isinstance(named, dict):
        found *= [float(named.get(code, 1.0)) for code in range(classes)]
    elif named in ("balanced", "balanced_subsample") or own.get("is_unbalance"):
        present = np.unique(codes)
        found[present] *= compute_class_weight("balanced", classes=present, y=codes)
    if classes == 2 and own.get("scale_pos_weight"):
        found[1] *= float(own["scale_pos_weight"])
    return None if np.ptp(found) == 0 else found
