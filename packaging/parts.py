"""Lists what is linked into a program, from the list that cargo-auditable put into it: an SBOM, and the licences of others.

    rust-audit-info PROGRAM | parts.py PROGRAM TARGET SBOM NOTICES

Nothing else decides what is in the lists, so they cannot disagree with the program. Cargo knows the licences and where the sources are.
Same program, same lists: times come from SOURCE_DATE_EPOCH, and no path of this machine is written.
"""

import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import uuid

# What is in the program and no crate: the name, the version (a command or a file that has it), the licence, its notice.
ECHARTS = pathlib.Path("crates/report/assets/echarts")
NOTICE_FILE = re.compile(r"(licen[cs]e|unlicense|copying|copyright|notice)", re.IGNORECASE)


def run(*words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def described_crates(target):
    """All crates that Cargo knows for a target, by name and version."""
    metadata = json.loads(run("cargo", "metadata", "--format-version=1", "--locked", "--offline", "--filter-platform", target))
    return {(package["name"], package["version"]): package for package in metadata["packages"]}


def checksums():
    """SHA-256 of the archives of crates, from Cargo.lock, by name and version."""
    pattern = re.compile(r'name = "(.*)"\nversion = "(.*)"\nsource = ".*"\nchecksum = "(.*)"')
    return {(name, version): sha256 for name, version, sha256 in pattern.findall(pathlib.Path("Cargo.lock").read_text())}


def licence_of(package):
    return (package["license"] or "").replace("/", " OR ")


def is_ours(entry):
    return entry["source"] == "local"


def others():
    """Parts of every program that are not crates."""
    charts = re.search(r"Apache ECharts\S* (\d\S*)", (ECHARTS / "README.md").read_text()).group(1)
    rust = re.search(r"release: (\S+)", run("rustc", "-vV")).group(1)
    return [
        {"name": "Apache ECharts", "version": charts, "licence": "Apache-2.0", "purl": f"pkg:npm/echarts@{charts}"},
        {"name": "The standard library of Rust", "version": rust, "licence": "MIT OR Apache-2.0", "purl": None},
    ]


# --- SBOM ----------------------------------------------------------------------------------------------------------


def component(entry, package, sha256):
    name, version = entry["name"], entry["version"]
    found = {"type": "library", "bom-ref": reference(entry), "name": name, "version": version}
    if licence_of(package):
        found["licenses"] = [{"expression": licence_of(package)}]
    if is_ours(entry):
        found["group"] = "pgdyno"
    else:
        found["purl"] = f"pkg:cargo/{name}@{version}"
        # Build scripts and macros are not in the program.
        found["scope"] = "excluded" if entry.get("kind") == "build" else "required"
    if sha256:
        found["hashes"] = [{"alg": "SHA-256", "content": sha256}]
    return found


def reference(entry):
    place = "pgdyno" if is_ours(entry) else "cargo"
    return f"{place}/{entry['name']}@{entry['version']}"


def other_component(other):
    found = {
        "type": "library",
        "bom-ref": f"other/{other['name']}@{other['version']}",
        "name": other["name"],
        "version": other["version"],
        "scope": "required",
        "licenses": [{"expression": other["licence"]}],
    }
    return found | ({"purl": other["purl"]} if other["purl"] else {})


def sbom(entries, packages, program, target):
    sums = checksums()
    key = lambda entry: (entry["name"], entry["version"])
    root = next(entry for entry in entries if entry.get("root"))
    parts = [component(entry, packages[key(entry)], sums.get(key(entry))) for entry in entries if entry is not root]
    further = [other_component(other) for other in others()]
    edges = {reference(entry): sorted({reference(entries[n]) for n in entry.get("dependencies", [])}) for entry in entries}
    edges[reference(root)] += [part["bom-ref"] for part in further]
    edges |= {part["bom-ref"]: [] for part in further}
    sha256 = hashlib.sha256(program).hexdigest()
    when = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
    itself = component(root, packages[key(root)], sha256) | {"type": "application"}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, sha256)}",
        "version": 1,
        "metadata": {
            "timestamp": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "component": itself,
            "properties": [{"name": "target", "value": target}],
        },
        "components": parts + further,
        "dependencies": [{"ref": ref, "dependsOn": needs} for ref, needs in sorted(edges.items())],
    }


# --- licences ------------------------------------------------------------------------------------------------------


def notice_files(package):
    """Licences in a crate, and in the C sources that it holds."""
    home = pathlib.Path(package["manifest_path"]).parent
    found = [path for path in [*home.glob("*"), *home.glob("*/*")] if path.is_file() and NOTICE_FILE.match(path.name)]
    texts = [path for path in found if path.suffix not in (".rs", ".c", ".h", ".py", ".sh") and "GPL" not in path.name]
    is_apache = lambda path: "apache" in path.name.lower()
    rest = [path for path in texts if not is_apache(path)]
    # One of two licences is enough.
    return sorted(rest if rest and "MIT" in licence_of(package) else texts)


def notices(entries, packages):
    linked = [entry for entry in entries if not is_ours(entry) and entry.get("kind") != "build"]
    rows, texts = [], {}
    for entry in linked:
        name, version = entry["name"], entry["version"]
        package = packages[name, version]
        rows.append((f"{name} {version}", licence_of(package)))
        for path in notice_files(package):
            text = path.read_text(errors="replace").replace("\r\n", "\n").strip()
            texts.setdefault(text, []).append(f"{name} {version}")
    for other in others():
        rows.append((f"{other['name']} {other['version']}", other["licence"]))
    for name in ("LICENSE", "NOTICE"):
        texts.setdefault((ECHARTS / name).read_text().strip(), []).append("Apache ECharts")
    lines = ["The program `pgdyno` contains the works of others. These are their names and licences; the texts follow.", ""]
    lines += [f"{name:<40} {licence}" for name, licence in rows]
    for text, names in sorted(texts.items(), key=lambda item: item[1]):
        lines += ["", "=" * 80, *wrapped(sorted(set(names))), "-" * 80, "", text]
    return "\n".join(lines) + "\n"


def wrapped(names):
    lines = [""]
    for name in names:
        if len(lines[-1]) + len(name) > 78:
            lines.append("")
        lines[-1] += f"{', ' if lines[-1] else ''}{name}"
    return lines


def main():
    program, target, sbom_file, notices_file = sys.argv[1:]
    entries = json.load(sys.stdin)["packages"]
    packages = described_crates(target)
    document = sbom(entries, packages, pathlib.Path(program).read_bytes(), target)
    pathlib.Path(sbom_file).write_text(json.dumps(document, indent=1) + "\n")
    pathlib.Path(notices_file).write_text(notices(entries, packages))


main()
