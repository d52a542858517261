"""Reproductions solve fewer programs in the tests, and keep designs out of the user's cache."""

from collections.abc import Iterator

import pytest

from arcwise.papers import interval_laws, opm_distribution, opm_optimality, unbiased_variance


@pytest.fixture(scope="session", autouse=True)
def _fewer_programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ARCWISE_CACHE", str(tmp_path_factory.mktemp("designs")))
        patch.setattr(interval_laws, "BOUND_EPSILONS", (0.5, 1.0, 2.0, 4.0))
        patch.setattr(opm_optimality, "DESIGN_EPSILONS", (1.0, 2.0))
        patch.setattr(unbiased_variance, "DESIGNED", (0.5, 1.0, 2.0, 4.0))
        patch.setattr(opm_distribution, "EPSILONS", (1.0, 4.0))
        patch.setattr(opm_distribution, "SURVEYS", 1)
        patch.setattr(opm_distribution, "SIZES", (1_000, 1_000_000))
        yield
