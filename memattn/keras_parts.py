"""Looks up parts of Keras that are not public, which another version of Keras may lack."""

from typing import Any

from memattn.errors import RunError


def part(owner: Any, *names: str) -> Any:
    """Returns the first of these attributes that a class or an object of Keras has. Raises RunError if it has none."""
    for name in names:
        if hasattr(owner, name):
            return getattr(owner, name)
    raise unsupported(owner, f"has no {' or '.join(names)}")


def unsupported(owner: Any, problem: str) -> RunError:
    """Returns the error for a class, an object or a module of Keras that is not as expected, as `problem` says."""
    import keras

    name = getattr(owner, "__name__", type(owner).__name__)
    advice = "install a Keras that the setup.py of memattn allows"
    return RunError(f"Keras {keras.__version__}: its {name} {problem}", advice)
