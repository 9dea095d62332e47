"""The parts that only work in a component: `skydock plugin build` imports them, and programs do not.

They use `wit_world`, which componentize-py generates from the WIT of the plugin. Everything that is needed later must be
imported while the component is built: there are no files at run time.
"""
