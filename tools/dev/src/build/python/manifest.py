# Prints what a build needs of pyproject.toml, as JSON.
import json
import re
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    manifest = tomllib.load(file)
project = manifest.get("project", {})
if "name" not in project:
    sys.exit("pyproject.toml: expected a name in [project]")
tool = manifest.get("tool", {}).get("skydock", {})
dependencies = project.get("dependencies", [])
if "sdk" in tool:
    # The SDK is that of the checkout, whatever version is required: nothing with its name is installed.
    dependencies = [it for it in dependencies if not re.match(r"\s*skydock\s*($|[^\w.\s-])", it, re.IGNORECASE)]
module, sdk = tool.get("module", "provider"), tool.get("sdk")
print(json.dumps({"name": project["name"], "module": module, "sdk": sdk, "dependencies": dependencies}))
