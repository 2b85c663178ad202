"""Parts of Keras that are not public and on which this package relies, looked up where another Keras may lack them."""

from typing import Any

from memattn.errors import RunError


def part(owner: Any, *names: str) -> Any:
    """The first of these attributes that `owner`, a class or an object of Keras, has. Raises RunError for none."""
    for name in names:
        if hasattr(owner, name):
            return getattr(owner, name)
    import keras

    kind = owner if isinstance(owner, type) else type(owner)
    raise RunError(
        f"Keras {keras.__version__}: its {kind.__name__} has no {' or '.join(names)}; "
        "install a Keras that the setup.py of memattn allows"
    )
