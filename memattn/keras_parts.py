"""Parts of Keras that are not public and on which this package relies, looked up where another Keras may lack them."""

from typing import Any

from memattn.errors import RunError


def part(owner: Any, *names: str) -> Any:
    """The first of these attributes that `owner`, a class or an object of Keras, has. Raises RunError for none."""
    for name in names:
        if hasattr(owner, name):
            return getattr(owner, name)
    raise unsupported(owner, f"has no {' or '.join(names)}")


def unsupported(owner: Any, problem: str) -> RunError:
    """The error that says what a class, an object or a module of Keras `has`, or does otherwise than expected."""
    import keras

    name = getattr(owner, "__name__", type(owner).__name__)
    advice = "install a Keras that the setup.py of memattn allows"
    return RunError(f"Keras {keras.__version__}: its {name} {problem}", advice)
