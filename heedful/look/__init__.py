"""Look: who looked at whom. Capture the weights of a forward pass, then draw them.

with watch(model) as weights:
    model(batch)
found = views(weights, source=source_tokens, read=target_tokens[:-1], written=target_tokens[1:])
draw(found, Path("cross.svg"), kind="cross")
"""

from heedful.look.capture import View, attentions, views, watch
from heedful.look.draw import SUFFIXES, check_suffix, draw
from heedful.look.heat import HeatMap, heat_map, pick
from heedful.look.rollout import rollout
from heedful.look.terminal import show

__all__ = [
    "SUFFIXES",
    "HeatMap",
    "View",
    "attentions",
    "check_suffix",
    "draw",
    "heat_map",
    "pick",
    "rollout",
    "show",
    "views",
    "watch",
]
