"""Orders of features that soon pay, found with few trainings.

CELF (Leskovec et al., *Cost-effective Outbreak Detection in Networks*, KDD 2007):
Greedy, but of the gains of earlier steps only the largest are measured again. If
returns diminish no other can be the largest now, and the order is Greedy's. Learned
models keep to that only roughly, so an order promises nothing; it is where a search
with a promise begins.
"""

from collections.abc import Callable, Iterable, MutableMapping

from .poly_dom import check_features, train_each

AT_ONCE = 4  # sets measured together: as many as there may be processes to do it
FREE = 1e-15  # what a gain in accuracy is divided by at least


def order_by_gain(
    m: int,
    train: Callable[[list[int]], Iterable[float]],
    cost_of: Callable[[int], float],
    *,
    known: MutableMapping[int, float],
    per_cost: bool,
    is_over: Callable[[], bool],
    on_trained: Callable[[], object],
) -> tuple[int, ...]:
    """Add feature after feature, each of the largest gain, until none gains anything.

    Parameters
    ----------
    m
        Number of features, 1 to 62.
    train
        Yields the accuracies of a list of sets.
    cost_of
        What a set's features cost at the size to optimise for.
    known
        Accuracies by set, the empty one's among them; those that are trained are added.
    per_cost
        Take the largest gain for what the feature costs, not the largest gain.
    is_over
        Says that time is up: the order ends with what is known then.
    on_trained
        Called after every training.

    Returns
    -------
    Positions of the features, in order; not of those that gained nothing.
    """
    check_features(m)
    order: list[int] = []
    done = 0
    # before anything is measured every feature may gain all that is missing
    gains = dict.fromkeys(range(m), 1.0 - known[0])

    def worth(feature: int) -> tuple[float, float, int]:
        """Sort features: by gain, of equals the cheaper, then the first."""
        added = max(cost_of(done | 1 << feature) - cost_of(done), 0.0)
        gain = gains[feature] / (added + FREE) if per_cost else gains[feature]
        return gain, -added, -feature

    while gains:
        measured: set[int] = set()
        while (best := max(gains, key=worth)) not in measured:
            if is_over():
                return tuple(order)
            ranked = sorted(gains.keys() - measured, key=worth, reverse=True)
            asked = ranked[:AT_ONCE]
            missing = [s for f in asked if (s := done | 1 << f) not in known]
            for mask, accuracy in train_each(train, missing):
                known[mask] = accuracy
                on_trained()
            for feature in asked:
                gains[feature] = known[done | 1 << feature] - known[done]
            measured.update(asked)
        if gains.pop(best) <= 0.0:
            break
        order.append(best)
        done |= 1 << best
    return tuple(order)
