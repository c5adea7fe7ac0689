"""The page: a data set or a decoder's latent space in the browser, with shortest paths drawn as one
points at them.

`scene` says what is shown, `session` answers what the page asks, `exports` makes what can be taken
away, `server` lets the page ask and nobody else. The page itself is plain HTML, CSS and JavaScript:
`page.html` and what it loads.
"""

from orthodrome.explore.scene import Scene, open_scene, scene_of
from orthodrome.explore.server import serve

__all__ = ["Scene", "open_scene", "scene_of", "serve"]
