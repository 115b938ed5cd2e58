"""Executors for the tasks of a sweep, with one interface: ``submit`` that gives a ``concurrent.futures.Future``."""

from concurrent.futures import BrokenExecutor


class RayExecutor:
    """Ray as an executor: ``sweep(plan, executor=RayExecutor())``.

    Ray must have been started (``ray.init()``). Keywords are those of ``ray.remote``: ``num_cpus=1``, ``max_retries=3``.
    """

    def __init__(self, **options):
        import ray

        self._ray = ray
        self._options = {"num_cpus": 1, **options}
        self._remote = {}

    def submit(self, function, /, *arguments):
        """Run a function with these arguments in a worker."""
        if function not in self._remote:
            self._remote[function] = self._ray.remote(**self._options)(function)
        return self._remote[function].remote(*arguments).future()


def adapted(executor):
    """The executor itself, or the one that it offers: a Dask ``Client`` has ``get_executor``."""
    offer = getattr(executor, "get_executor", None)
    return offer(pure=False) if offer else executor


def is_lost(error):
    """Return True if the executor, and not only a task, has failed."""
    return isinstance(error, BrokenExecutor)
