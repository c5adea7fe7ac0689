"""The estimators keep scikit-learn's contract."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import orthodrome as od

QUICK = od.Energy(elements=4, degree=1, tol=1e-3)
"""The checks use a dozen numbers of features, and each compiles the solver anew: a small one will
do."""


# as scikit-learn's own are in these checks
@pytest.mark.filterwarnings("ignore::orthodrome.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks(
    [
        od.GeodesicKMeans(n_clusters=2, solver=QUICK, max_iter=10),
        od.TangentPCA(solver=QUICK, max_iter=10),
        od.LAND(n_components=2, solver=QUICK, n_rays=8, max_iter=1, max_seconds=1.0),
    ]
)
def test_an_estimator_passes_scikit_learns_check(estimator, check):
    check(estimator)
