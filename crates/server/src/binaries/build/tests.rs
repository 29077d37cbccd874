//! Builds of a tree that builds in no time.

use std::io::Write;

use super::*;

static GO: AtomicBool = AtomicBool::new(false);

const CONFIGURE: &str = r#"#!/bin/sh
for o in "$@"; do case $o in --prefix=*) echo "PREFIX=${o#--prefix=}" > prefix.mk;; esac; done
echo "$@" > options
"#;
const MAKEFILE: &str = "include prefix.mk
all:
install:
\tmkdir -p $(DESTDIR)$(PREFIX)/bin
\tcp fake $(DESTDIR)$(PREFIX)/bin/postgres
\tcp fake $(DESTDIR)$(PREFIX)/bin/initdb
\tcp options $(DESTDIR)$(PREFIX)/options
";

/// A directory that the server's user can enter.
fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    place
}

/// A tree that builds in no time and installs scripts that say they are PostgreSQL.
fn tree(dir: &Path, version: &str) {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        crate::binaries::write_program(&path, text);
    };
    write("configure", CONFIGURE);
    write("Makefile", MAKEFILE);
    write("fake", &format!("#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n"));
    for extension in EXTENSIONS {
        write(&format!("contrib/{extension}/Makefile"), "install:\n");
    }
}

fn run_git(dir: &Path, args: &[&str]) {
    let identity = ["-c", "user.name=x", "-c", "user.email=x@x"];
    let done = Command::new("git").arg("-C").arg(dir).args(identity).args(args).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

/// Cargo gives its tests variables that no build needs.
#[test]
fn code_of_a_source_gets_nothing_of_our_environment_that_a_build_does_not_need() {
    let place = place();
    let (cache, sources) = (Cache::at(place.path().join("cache")), place.path().join("sources"));
    tree(&sources, "15.1");
    let seen = place.path().join("seen");
    let spy = format!("#!/bin/sh\nenv > {}\n{}", seen.display(), CONFIGURE.trim_start_matches("#!/bin/sh\n"));
    crate::binaries::write_program(&sources.join("configure"), &spy);
    let source = SourceTree { tree: &sources.display().to_string(), revision: None };
    build(&cache, &source, &GO, &mut |_| ()).unwrap();
    let seen = fs::read_to_string(seen).unwrap();
    assert!(seen.lines().any(|line| line.starts_with("PATH=")), "{seen}");
    assert!(
        std::env::var_os("CARGO_MANIFEST_DIR").is_some() && !seen.contains("CARGO_MANIFEST_DIR"),
        "{seen}"
    );
}

#[test]
fn each_commit_is_built_once_with_the_same_options() {
    let place = place();
    let (cache, repository) = (Cache::at(place.path().join("cache")), place.path().join("repository"));
    tree(&repository, "15.1");
    run_git(&repository, &["init", "-q"]);
    run_git(&repository, &["add", "-A"]);
    run_git(&repository, &["commit", "-qm", "one"]);
    run_git(&repository, &["tag", "REL_15_1"]);
    tree(&repository, "15.2");
    run_git(&repository, &["commit", "-qam", "two"]);
    let tree_text = repository.display().to_string();
    let mut told = Vec::new();
    let mut of = |revision: Option<&str>| {
        let source = SourceTree { tree: &tree_text, revision };
        build(&cache, &source, &GO, &mut |text| told.push(text))
    };
    let one = of(Some("REL_15_1")).unwrap();
    let two = of(Some("HEAD")).unwrap();
    assert_eq!((one.version.as_str(), two.version.as_str()), ("15.1", "15.2"));
    let options = |binaries: &Binaries| {
        let text = fs::read_to_string(binaries.bin_dir.parent().unwrap().join("options")).unwrap();
        text.split_whitespace()
            .filter(|word| !word.starts_with("--prefix"))
            .map(str::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(options(&one), options(&two));
    for option in ["CC=cc", "CFLAGS=-O2"] {
        assert!(options(&one).contains(&option.to_string()), "{:?}", options(&one));
    }
    assert_eq!(of(Some("REL_15_1")).unwrap(), one);
    // The directory as it is has its own build directory.
    assert_eq!(of(None).unwrap().version, "15.2");
    assert!(of(Some("REL_99")).unwrap_err().to_string().contains("has no revision `REL_99`"));
    assert!(of(Some("--x")).unwrap_err().to_string().contains("is not a revision"));
    assert_eq!(told.iter().filter(|text| text.starts_with("building")).count(), 3, "{told:?}");
}

#[test]
fn a_repository_on_another_machine_is_built_with_the_rights_of_the_servers_user() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let place = place();
    let (cache, repository) = (Cache::at(place.path().join("cache")), place.path().join("repository"));
    let secret = place.path().join("secret");
    files::create_new(&secret, 0o600).unwrap();
    tree(&repository, "15.1");
    // A malicious build could do all of this.
    let hostile = format!(
        "#!/bin/sh\n{}\n{{ id -u; id -G; cat {} && echo read; env; }} >> options 2>&1\nchmod 777 fake\n",
        CONFIGURE.strip_prefix("#!/bin/sh\n").unwrap(),
        secret.display()
    );
    crate::binaries::write_program(&repository.join("configure"), &hostile);
    run_git(&repository, &["init", "-q"]);
    run_git(&repository, &["add", "-A"]);
    run_git(&repository, &["commit", "-qm", "one"]);
    // Git refuses to read a repository that a third user owns.
    let account = crate::user::account::Account::choose().unwrap();
    let given = Command::new("chown").args(["-R", &account.uid.to_string()]).arg(&repository).status();
    assert!(given.unwrap().success());
    let address = format!("file://{}", repository.display());
    let of =
        |revision| build(&cache, &SourceTree { tree: &address, revision: Some(revision) }, &GO, &mut |_| {});
    let built = of("HEAD").unwrap();
    assert_eq!(built.version, "15.1");
    let dir = built.bin_dir.parent().unwrap();
    let options = fs::read_to_string(dir.join("options")).unwrap();
    let mut lines = options.lines().skip(1);
    assert_eq!(lines.next(), Some(account.uid.to_string().as_str()), "{options}");
    assert_eq!(lines.next(), Some(account.gid.to_string().as_str()), "{options}");
    assert!(!options.contains("\nread") && !options.contains("CARGO_MANIFEST_DIR"), "{options}");
    // What was built is ours, and that user cannot change it.
    for path in [dir.to_path_buf(), dir.join("bin"), dir.join("bin/postgres"), dir.join("options")] {
        let facts = fs::symlink_metadata(&path).unwrap();
        use std::os::unix::fs::MetadataExt;
        assert_eq!((facts.uid(), facts.mode() & 0o022), (0, 0), "{}", path.display());
    }
    // New commits are fetched.
    tree(&repository, "15.2");
    run_git(&repository, &["-c", "safe.directory=*", "commit", "-qam", "two"]);
    let given = Command::new("chown").args(["-R", &account.uid.to_string()]).arg(&repository).status();
    assert!(given.unwrap().success());
    assert_eq!(of("HEAD").unwrap().version, "15.2");
    // A release that was built needs neither the repository nor its mirror; a branch does.
    run_git(&repository, &["-c", "safe.directory=*", "tag", "REL_15_2"]);
    assert_eq!(of("REL_15_2").unwrap().version, "15.2");
    for gone in [&repository, &place.path().join("cache/builds/repositories")] {
        fs::remove_dir_all(gone).unwrap();
    }
    assert_eq!(of("REL_15_2").unwrap().version, "15.2");
    assert!(of("HEAD").is_err());
    let left = fs::read_dir(place.path().join("cache/builds")).unwrap().flatten();
    let left = left.filter(|entry| entry.path().extension().is_some_and(|e| e == "work" || e == "stage"));
    assert_eq!(left.count(), 0);
}

#[test]
fn variables_that_would_change_a_build_are_removed_from_its_environment() {
    let check = |variable: &str, expected: bool| assert_eq!(changes_builds(variable), expected, "{variable}");
    for variable in ["CC", "CPATH", "MAKEFLAGS", "MAKEOVERRIDES", "LIBS", "GIT_DIR", "GIT_CONFIG_COUNT"] {
        check(variable, true);
    }
    for variable in ["PATH", "HOME", "HTTPS_PROXY", "SSH_AUTH_SOCK"] {
        check(variable, false);
    }
}

#[test]
fn a_wait_for_a_lock_can_be_stopped() {
    let place = place();
    let path = place.path().join("x.lock");
    static STOP: AtomicBool = AtomicBool::new(true);
    let held = lock(&path, &STOP, &mut |_| {}).unwrap();
    let refused = lock(&path, &STOP, &mut |_| {}).unwrap_err().to_string();
    assert!(refused.contains("stopped while waiting for another pgdyno"), "{refused}");
    drop(held);
    // A wait that nobody stops: a child that another test starts may still hold the lock for a moment.
    STOP.store(false, Ordering::Relaxed);
    assert!(lock(&path, &STOP, &mut |_| {}).is_ok());
}

#[test]
fn a_source_that_cannot_be_built_is_reported_with_the_builds_own_message() {
    let place = place();
    let cache = Cache::at(place.path().join("cache"));
    let dir = place.path().join("tree");
    let refused = |dir: &Path, stop: &AtomicBool| {
        let source = SourceTree { tree: &dir.display().to_string(), revision: None };
        format!("{:#}", build(&cache, &source, stop, &mut |_| {}).unwrap_err())
    };
    assert!(refused(&dir, &GO).contains("for a repository give server.revision"));
    fs::create_dir_all(dir.join("src/include")).unwrap();
    assert!(refused(&dir, &GO).contains("has no `configure`"));
    tree(&dir, "15.1");
    fs::write(dir.join("src/include/pg_config.h"), "").unwrap();
    assert!(refused(&dir, &GO).contains("run make distclean"));
    fs::remove_file(dir.join("src/include/pg_config.h")).unwrap();
    fs::write(dir.join("configure"), "#!/bin/sh\necho 'configure: error: no bison'\nexit 1\n").unwrap();
    let failed = refused(&dir, &GO);
    assert!(failed.contains("configure: error: no bison") && failed.contains(".log"), "{failed}");
    static STOP: AtomicBool = AtomicBool::new(true);
    fs::write(dir.join("configure"), "#!/bin/sh\nsleep 60\n").unwrap();
    assert!(refused(&dir, &STOP).contains("stopped while building"));
    let left = fs::read_dir(place.path().join("cache/builds")).unwrap().flatten();
    let left: Vec<String> = left.map(|e| e.file_name().to_string_lossy().into_owned()).collect();
    assert!(left.iter().all(|name| name.ends_with(".log") || name.ends_with(".lock")), "{left:?}");
}

#[test]
fn a_lock_file_that_is_a_link_is_refused() {
    let place = place();
    let (path, victim) = (place.path().join("x.lock"), place.path().join("victim"));
    fs::write(&victim, "mine").unwrap();
    std::os::unix::fs::symlink(&victim, &path).unwrap();
    let refused = format!("{:#}", lock(&path, &GO, &mut |_| {}).unwrap_err());
    assert!(refused.contains("symbolic link"), "{refused}");
    fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(place.path().join("new"), &path).unwrap();
    assert!(lock(&path, &GO, &mut |_| {}).is_err() && !place.path().join("new").exists());
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
}

#[test]
fn a_build_that_others_could_have_put_there_is_not_run() {
    let place = place();
    let (cache, dir) = (Cache::at(place.path().join("cache")), place.path().join("tree"));
    tree(&dir, "15.1");
    let built = || {
        let source = SourceTree { tree: &dir.display().to_string(), revision: None };
        build(&cache, &source, &GO, &mut |_| {}).map_err(|error| format!("{error:#}"))
    };
    let first = built().unwrap();
    let home = first.bin_dir.parent().unwrap().to_path_buf();
    let set = |path: &Path, mode| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    };
    for path in [home.clone(), cache.dir.join("builds"), home.join(FACTS_FILE)] {
        set(&path, 0o777);
        let refused = built().unwrap_err();
        assert!(refused.contains("every user"), "{refused}");
        set(&path, 0o755);
    }
    built().unwrap();
    // This process has verified it before; only the tree shows what another process would see.
    let recipe = BuildPlace { dir: home.clone() }.recipe().unwrap().unwrap();
    crate::binaries::write_program(&home.join("bin/postgres"), "#!/bin/sh\ntouch /tmp/evil\n");
    let changed = recipe.made.verify(&home, FACTS_FILE).unwrap_err().to_string();
    assert!(changed.contains("`bin/postgres` was"), "{changed}");
}

#[test]
fn a_slow_git_server_does_not_hold_up_a_build_for_ever() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/x.git", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nX: ").ok();
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_secs(1));
            }
        }
    });
    let place = place();
    let mut clone = Command::new("git");
    clone.args(["clone", "--mirror", "--", &address, "copy"]);
    let (deadline, log) = (Duration::from_secs(3), place.path().join("log"));
    let refused = run_within(deadline, clone, place.path(), &log, &GO).unwrap_err().to_string();
    assert!(refused.contains("did not end within 3 s"), "{refused}");
}
