//! Packages: what they install, where, and from which files. Only `./package` can say whether they can be made.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use super::documents::links;
use super::tree;
use super::{assert_none, assert_one};

const DEFINITION: &str = "packaging/nfpm.yaml";
/// Where packages install files, and how many levels below: nothing of another package can be there.
const PLACES: &[&str] = &[
    "/usr/bin/pgdyno",
    "/usr/lib/pgdyno",
    "/usr/share/bash-completion/completions/pgdyno",
    "/usr/share/doc/pgdyno",
    "/usr/share/fish/vendor_completions.d/pgdyno.fish",
    "/usr/share/man/man1/",
    "/usr/share/zsh/site-functions/_pgdyno",
    "/usr/share/zsh/vendor-completions/_pgdyno",
];

/// One thing that a package installs.
#[derive(Debug, Default)]
struct Content {
    source: String,
    place: String,
    kind: String,
}

/// The list `contents` of the definition, which is written in the plainest YAML.
fn contents(text: &str) -> Vec<Content> {
    let list = text.split_once("\ncontents:\n").unwrap().1;
    let lines = list.lines().take_while(|line| line.starts_with("  "));
    let lines = lines.filter(|line| !line.trim_start().starts_with('#'));
    let mut found: Vec<Content> = Vec::new();
    for line in lines {
        if line.starts_with("  - ") {
            found.push(Content::default());
        }
        let (key, value) = line.trim_start_matches([' ', '-']).split_once(": ").unwrap();
        let content = found.last_mut().unwrap();
        match key {
            "src" => content.source = value.to_string(),
            "dst" => content.place = value.to_string(),
            "type" => content.kind = value.to_string(),
            "packager" => {}
            _ => panic!("`{key}` is not known here"),
        }
    }
    found
}

/// Contents in places that are not ours, and those that `stage.sh` and `texts.sh` do not make.
fn problems(contents: &[Content], scripts: &str) -> Vec<String> {
    let mut found = Vec::new();
    for Content { source, place, kind } in contents {
        let is_in = |own: &&&str| place == **own || place.starts_with(&format!("{own}/"));
        if PLACES.iter().find(|own| is_in(own) || own.ends_with('/') && place == **own).is_none() {
            found.push(format!("`{place}` is not a place of pgdyno's own"));
        }
        let name = source.rsplit('/').next().unwrap_or_default();
        let is_made = match kind.as_str() {
            "symlink" => joined(place, source) == "/usr/bin/pgdyno" && scripts.contains(source.as_str()),
            "dir" => true,
            _ => scripts.contains(name.trim_start_matches('*')),
        };
        if !is_made {
            found.push(format!("`{source}` is made by no script"));
        }
    }
    found
}

/// Where a relative link leads.
fn joined(link: &str, target: &str) -> String {
    let mut parts: Vec<&str> = link.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Files of the repository that the scripts install, as words that begin in capitals or below `packaging/`.
fn missing_files(scripts: &str, exists: &dyn Fn(&str) -> bool) -> Vec<String> {
    let words = scripts.lines().filter(|line| !line.trim_start().starts_with('#'));
    let words = words.flat_map(|line| line.split([' ', '"', '<', '(', ')', ';', '\'']));
    let is_file = |word: &&str| {
        let is_named =
            word.starts_with("packaging/") || word.starts_with("LICENSE-") || word.ends_with(".md");
        is_named && !word.contains(['$', '*'])
    };
    let missing = words.filter(is_file).filter(|word| !exists(word));
    missing.map(|word| format!("`{word}` does not exist")).collect()
}

fn scripts() -> String {
    ["package", "packaging/stage.sh", "packaging/texts.sh"].map(|path| tree::file(path).text).concat()
}

#[test]
fn packages_install_only_what_is_ours_and_is_made() {
    let contents = contents(&tree::file(DEFINITION).text);
    assert!(contents.len() > 12, "{contents:?}");
    assert_none(&problems(&contents, &scripts()));
}

#[test]
fn what_the_scripts_of_packages_install_exists() {
    let exists = |path: &str| tree::root().join(path).exists();
    assert_none(&missing_files(&scripts(), &exists));
}

/// What a script of packaging prints, with `words` as its arguments.
fn bash(script: &str, words: &[&Path]) -> String {
    let names = [("version", "1.2.3"), ("maintainer", "A <a@example.org>"), ("SOURCE_DATE_EPOCH", "0")];
    let mut command = Command::new("bash");
    command.args(["-euo", "pipefail", "-c", script, "bash"]).args(words).envs(names);
    let output = command.current_dir(tree::root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Files below a directory, by their paths in it.
fn files_below(dir: &Path, below: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{below}{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(files_below(dir, &format!("{path}/")));
        } else {
            found.push(path);
        }
    }
    found
}

#[test]
fn links_of_the_readme_lead_to_files_of_the_package() {
    let stage = tempfile::tempdir().unwrap();
    let documents = stage.path().join("share/doc/pgdyno");
    fs::write(stage.path().join("THIRD-PARTY.txt"), "").unwrap();
    bash(". packaging/texts.sh; write_documents \"$1\" \"$2\"", &[documents.as_path(), stage.path()]);
    for link in links(&tree::file("README.md").text).iter().filter(|link| !link.contains("://")) {
        let path = link.split('#').next().unwrap();
        assert!(documents.join(path).exists(), "`{link}` leads nowhere in a package");
    }

    let entries = bash(". packaging/stage.sh; readable_documents \"$1\"", &[stage.path()]);
    let definition = tree::file(DEFINITION).text;
    let packed = contents(&definition.replacen("\ncontents:\n", &format!("\ncontents:\n{entries}"), 1));
    for path in files_below(&documents, "") {
        let place = format!("/usr/share/doc/pgdyno/{path}");
        let n = packed.iter().filter(|content| content.place == place).count();
        let is_of_debian = ["copyright", "changelog.Debian.gz"].contains(&path.as_str());
        assert_eq!(n, if is_of_debian { 1 } else { 2 }, "`{path}` in .deb and .rpm");
    }
}

/// Purges the package as dpkg does, with its cache in `cache`; says whether that is gone.
fn purge(cache: &Path) -> bool {
    let script = tree::file("packaging/postrm").text;
    assert_eq!(script.matches("cache=/var/cache/pgdyno\n").count(), 1);
    let script = script.replace("cache=/var/cache/pgdyno\n", &format!("cache='{}'\n", cache.display()));
    let ended = Command::new("sh").args(["-c", &script, "postrm", "purge"]).status().unwrap();
    assert!(ended.success(), "{ended}");
    !cache.exists()
}

#[test]
fn a_purge_removes_the_cache_unless_it_is_needed() {
    let dir = tempfile::tempdir().unwrap();
    let cache = dir.path().join("cache");
    assert!(purge(&cache), "there is none");
    for name in ["clusters/18-tpcb", "settings", "postgres"] {
        fs::create_dir_all(cache.join(name)).unwrap();
    }
    let lock = File::create(cache.join("clusters/18-tpcb.lock")).unwrap();
    lock.lock().unwrap();
    assert!(!purge(&cache), "a cluster is in use");
    drop(lock);
    let journal = cache.join("settings/1-2.json");
    fs::write(&journal, "{}").unwrap();
    assert!(!purge(&cache), "settings have to be put back");
    fs::remove_file(&journal).unwrap();
    assert!(purge(&cache));
    let elsewhere = dir.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &cache).unwrap();
    assert!(!purge(&cache) && elsewhere.exists(), "a link is left alone");
}

#[test]
fn bad_packages_are_found() {
    let found = |content: &str| {
        let text = format!("name: x\ncontents:\n{content}\nother:\n");
        problems(&contents(&text), "install bin/pgdyno; ln -s ../../../bin/pgdyno x; cp man/*.1.gz")
    };
    assert_none(&found("  - src: bin/pgdyno\n    dst: /usr/bin/pgdyno"));
    assert_none(&found("  - src: share/*.1.gz\n    dst: /usr/share/man/man1/\n    packager: deb"));
    let link =
        |target: &str, place: &str| found(&format!("  - src: {target}\n    dst: {place}\n    type: symlink"));
    assert_none(&link("../../../bin/pgdyno", "/usr/lib/pgdyno/bin/pgbench"));
    assert_one(&link("../../../bin/pgdyno", "/usr/lib/pgdyno/pgbench"), "made by no script");
    assert_one(&link("pgdyno", "/usr/bin/pgbench"), "not a place");
    assert_one(&found("  - src: bin/pgdyno\n    dst: /usr/bin/pgbench"), "not a place");
    assert_one(&found("  - src: bin/pgdyno\n    dst: /usr/bin/pgdyno2"), "not a place");
    assert_one(&found("  - src: bin/other\n    dst: /usr/bin/pgdyno"), "made by no script");
    let exists = |path: &str| path == "packaging/here";
    assert_none(&missing_files("install \"packaging/here\" # x\n# packaging/gone\n", &exists));
    assert_one(&missing_files("gzip <packaging/gone", &exists), "packaging/gone");
}
