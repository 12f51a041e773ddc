"""The library behind *Where Attention Looks*.

Dependencies point downwards only::

    notebooks -> widgets / plots / results -> stats -> rollout -> models -> generators
"""

__version__ = "0.1.0"
