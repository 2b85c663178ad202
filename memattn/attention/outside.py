"""Imports mechanisms outside the package, which configs name as module:Class."""

import contextlib
import importlib
import os
import sys

from memattn.attention.base import AttentionMechanism


def outside_class(reference: str) -> type[AttentionMechanism]:
    """Imports the class of a reference; as for `python -m`, its module may be in the current directory.

    Raises ImportError.
    """
    module_name, _, class_name = reference.partition(":")
    if not (module_name and class_name.isidentifier()):
        raise ImportError("expected module:Class, such as my_package.my_module:MyAttention")
    with contextlib.suppress(OSError):  # the current directory was removed
        if not {"", os.getcwd()} & set(sys.path):
            sys.path.append(os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # of any kind: importing runs the user's code
        raise ImportError(f"module {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    mechanism = getattr(module, class_name, None)
    if not (isinstance(mechanism, type) and issubclass(mechanism, AttentionMechanism)):
        raise ImportError(f"module {module_name} has no memattn.AttentionMechanism {class_name}")
    return mechanism
