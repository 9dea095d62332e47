"""Fetches uv from PyPI where there is no pip: `VERSION PATH`."""
import hashlib, io, json, os, platform, sys, urllib.request, zipfile  # noqa: E401

version, path = sys.argv[1:]
with urllib.request.urlopen(f"https://pypi.org/pypi/uv/{version}/json", timeout=60) as answer:
    wheels = json.load(answer)["urls"]
end = f"manylinux2014_{platform.machine()}.whl"
wheel = next(one for one in wheels if one["filename"].endswith(end))
with urllib.request.urlopen(wheel["url"], timeout=300) as answer:
    data = answer.read()
if hashlib.sha256(data).hexdigest() != wheel["digests"]["sha256"]:
    sys.exit("the wheel of uv is not the one that PyPI names")
with zipfile.ZipFile(io.BytesIO(data)) as archive:
    name = next(name for name in archive.namelist() if name.endswith(".data/scripts/uv"))
    with open(path, "wb") as out:
        out.write(archive.read(name))
os.chmod(path, 0o755)
