# Imports the module of a plugin, and prints what a build needs to know, as JSON in the last line.
import importlib
import json
import sys
from pathlib import Path

import skydock
from skydock import _plugin

importlib.import_module(sys.argv[1])
try:
    capabilities = _plugin.capabilities(_plugin.registered())
except RuntimeError as error:
    sys.exit(f"{sys.argv[1]}: {error}")
sdk = Path(skydock.__file__).parent
print(json.dumps({"capabilities": capabilities, "sdk": str(sdk)}))
