# Prints what a build needs of pyproject.toml, as JSON.
import json
import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    manifest = tomllib.load(file)
project = manifest.get("project", {})
if "name" not in project:
    sys.exit("pyproject.toml: expected a name in [project]")
module = manifest.get("tool", {}).get("skydock", {}).get("module", "provider")
print(json.dumps({"name": project["name"], "module": module, "dependencies": project.get("dependencies", [])}))
