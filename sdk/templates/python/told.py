"""An exception that nobody catches ends a call without a trace of its own. What is told instead is the last error in the log."""

import functools
import traceback

from componentize_py_types import Err
from wit_world.imports import log


def told(decide):
    @functools.wraps(decide)
    def call(*given):
        try:
            return decide(*given)
        except Err:
            raise
        except Exception as error:
            # To print source lines would be to read files, which there are not.
            frames = traceback.walk_tb(error.__traceback__)
            places = "".join(f"\n  {frame.f_code.co_name}, line {line}" for frame, line in frames)
            log.log(log.Level.ERROR, f"{type(error).__name__}: {error}{places}")
            raise

    return call
