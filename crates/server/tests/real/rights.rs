//! Whatever the server's user does to files, root does nothing in that user's favour.

use std::fs::{self, File, Permissions};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, geteuid, mkfifo, setfsgid, setfsuid};
use server::cluster::workspace::{ClusterKey, Workspace};
use server::user::account::Account;
use server::{Binaries, Cluster, InitOptions, OwnServer, StopMode};
use testbed::Apart;

use crate::support::{cluster, installed, place, settings};
use crate::tell;

/// Far longer than any of this takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Whether we are root, for whom another user is a danger.
fn is_root(test: &str) -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        tell(&format!("skipped: {test} needs root"));
    }
    is_root
}

/// Runs a shell script as the server's user; whether it succeeded.
fn as_server(account: &Account, dir: &Path, script: &str) -> bool {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(dir).uid(account.uid).gid(account.gid);
    command.stderr(std::process::Stdio::null()).status().unwrap().success()
}

/// The result of `work`; fails the test if it blocks.
#[track_caller]
fn in_time<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = channel();
    std::thread::spawn(move || done.send(work()).ok());
    result.recv_timeout(PATIENCE).expect("it blocks")
}

/// Repeats `work` while the server's user repeats `trick`, for some seconds or until `work` asks to stop.
fn against(account: &Account, trick: impl Fn() + Sync, mut work: impl FnMut() -> bool) {
    let is_over = AtomicBool::new(false);
    let end = Instant::now() + Duration::from_secs(6);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            setfsgid(Gid::from_raw(account.gid));
            setfsuid(Uid::from_raw(account.uid));
            while !is_over.load(Ordering::Relaxed) {
                trick();
            }
        });
        while Instant::now() < end && !work() {}
        is_over.store(true, Ordering::Relaxed);
    });
}

fn exchange(one: &Path, other: &Path) {
    renameat2(AT_FDCWD, one, AT_FDCWD, other, RenameFlags::RENAME_EXCHANGE).ok();
}

/// A directory of root with a file in it.
fn precious(place: &Apart) -> PathBuf {
    let dir = place.path().join("precious");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("kept"), "kept").unwrap();
    dir
}

fn names_in(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn fifo(path: &Path) {
    if path.exists() {
        fs::remove_file(path).unwrap();
    }
    mkfifo(path, Mode::S_IRWXU | Mode::S_IRWXG | Mode::S_IRWXO).unwrap();
}

#[test]
fn only_data_and_wal_are_given_to_the_servers_user() {
    let place = place();
    let wal = place.path().join("wal");
    fs::create_dir(&wal).unwrap();
    let options = InitOptions { wal_directory: Some(wal), ..InitOptions::default() };
    let cluster = Cluster::create(&installed(), &place.path().join("cluster"), &options).unwrap();
    OwnServer::start(&cluster, &settings(&[])).unwrap().stop(StopMode::Fast).unwrap();
    cluster.snapshot("x").unwrap();
    let me = geteuid().as_raw();
    let holder = cluster.facts.wal_holder.clone().unwrap();
    let snapshot = cluster.root.join("snapshots/x");
    let ours = [
        cluster.root.clone(),
        cluster.root.join("pgdyno-cluster.json"),
        cluster.root.join("server.log"),
        cluster.root.join("snapshots"),
        snapshot.join("snapshot.json"),
        snapshot.join("data/PG_VERSION"),
        snapshot.join("wal"),
        holder.join("pgdyno-wal.json"),
        holder,
    ];
    for path in ours {
        let facts = fs::symlink_metadata(&path).unwrap();
        assert_eq!((facts.uid(), facts.mode() & 0o022), (me, 0), "{}", path.display());
    }
    for path in [cluster.data_dir(), cluster.data_dir().join("PG_VERSION"), cluster.wal_dir()] {
        assert_eq!(fs::symlink_metadata(&path).unwrap().uid(), cluster.account.uid, "{}", path.display());
    }
    assert_eq!(
        fs::metadata(cluster.root.join("snapshots")).unwrap().mode() & 0o077,
        0,
        "the data is readable"
    );
}

#[test]
fn the_servers_user_replaces_neither_marker_nor_snapshots_nor_logs() {
    if !is_root("what the server's user can replace") {
        return;
    }
    let place = place();
    let mut cluster = cluster(&installed(), &place);
    OwnServer::start(&cluster, &settings(&[])).unwrap().stop(StopMode::Fast).unwrap();
    cluster.snapshot("x").unwrap();
    let precious = precious(&place);
    let elsewhere = format!(
        r#"{{"name":"x","created_unix_s":0,"bytes":0,"n_files":0,"outside":[["wal","{}"]]}}"#,
        precious.display()
    );
    for script in [
        "mv pgdyno-cluster.json old".to_string(),
        "rm -f pgdyno-cluster.json && mkfifo pgdyno-cluster.json".to_string(),
        "rm -f server.log && mkfifo server.log".to_string(),
        "mkfifo pgdyno-cluster.json.new".to_string(),
        "mv snapshots elsewhere".to_string(),
        format!("cd snapshots/x && rm -f snapshot.json && echo '{elsewhere}' >snapshot.json && mkdir wal"),
        "rm -r data && ln -s / data".to_string(),
    ] {
        assert!(!as_server(&cluster.account, &cluster.root, &script), "{script}");
    }
    cluster.restore("x").unwrap();
    assert_eq!(names_in(&precious), ["kept"]);
}

#[test]
fn a_cluster_that_belongs_to_the_servers_user_is_refused_and_removed_with_that_users_rights() {
    if !is_root("a cluster that root does not own") {
        return;
    }
    let place = place();
    let workspace = Workspace::open(place.path()).unwrap();
    let cluster = Cluster::create(&installed(), &place.path().join("old"), &InitOptions::default()).unwrap();
    cluster.snapshot("x").unwrap();
    let precious = precious(&place);
    let account = cluster.account.clone();
    let given = Command::new("chown").args(["-R", &account.uid.to_string()]).arg(&cluster.root).status();
    assert!(given.unwrap().success());
    fs::set_permissions(&cluster.root, Permissions::from_mode(0o700)).unwrap();
    assert!(as_server(&account, &cluster.root, &format!("ln -s {} data/link", precious.display())));
    let error = format!("{:#}", Cluster::open(&installed(), &cluster.root).unwrap_err());
    assert!(error.contains("pgdyno server remove") && error.contains("belongs to user"), "{error}");
    let listed = workspace.list().unwrap();
    let entry = listed.iter().find(|entry| entry.name == "old").unwrap();
    assert!(entry.facts.is_none() && entry.snapshots.is_empty(), "{entry:?}");
    // Root's files there do not belong to that user, and stay.
    fs::create_dir(cluster.data_dir().join("roots")).unwrap();
    fs::write(cluster.data_dir().join("roots/file"), "").unwrap();
    let error = format!("{:#}", workspace.remove("old").unwrap_err());
    assert!(error.contains("as user"), "{error}");
    assert!(cluster.data_dir().join("roots/file").exists());
    fs::remove_dir_all(cluster.data_dir().join("roots")).unwrap();
    workspace.remove("old").unwrap();
    assert!(!cluster.root.exists());
    assert_eq!(names_in(&precious), ["kept"]);
}

#[test]
fn a_link_swapped_in_during_a_restore_is_not_followed() {
    if !is_root("a race with the server's user") {
        return;
    }
    let place = place();
    let mut cluster = cluster(&installed(), &place);
    cluster.snapshot("x").unwrap();
    let precious = precious(&place);
    let (real, link) = (cluster.data_dir().join("base/1"), cluster.data_dir().join("base/link"));
    let account = cluster.account.clone();
    let trick = || {
        if !link.exists() {
            symlink(&precious, &link).ok();
        }
        exchange(&real, &link);
    };
    against(&account, trick, || {
        // It may well fail, because the server's user works against it.
        cluster.restore("x").ok();
        names_in(&precious) != ["kept"]
    });
    assert_eq!(names_in(&precious), ["kept"]);
    fs::remove_file(&link).ok();
    cluster.restore("x").unwrap();
}

#[test]
fn a_link_swapped_in_during_a_snapshot_copies_none_of_roots_files() {
    if !is_root("a race with the server's user") {
        return;
    }
    let place = place();
    let cluster = cluster(&installed(), &place);
    let secret = place.path().join("secret");
    fs::write(&secret, "only root may read this").unwrap();
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).unwrap();
    let (real, link) = (cluster.data_dir().join("PG_VERSION"), cluster.data_dir().join("link"));
    symlink(&secret, &link).unwrap();
    let kept = cluster.root.join("snapshots/x/data");
    let is_stolen = || {
        ["PG_VERSION", "link"].iter().any(|name| {
            let is_file = |path: &PathBuf| fs::symlink_metadata(path).is_ok_and(|facts| facts.is_file());
            let mut text = String::new();
            let path = Some(kept.join(name)).filter(is_file);
            path.is_some_and(|path| File::open(path).unwrap().read_to_string(&mut text).is_ok())
                && text.contains("only root")
        })
    };
    against(
        &cluster.account,
        || exchange(&real, &link),
        || {
            cluster.snapshot("x").ok();
            is_stolen() || {
                cluster.remove_snapshot("x").ok();
                false
            }
        },
    );
    assert!(!is_stolen());
}

#[test]
fn a_link_to_a_file_that_we_have_open_copies_nothing_into_a_snapshot() {
    if !is_root("a race with the server's user") {
        return;
    }
    let place = place();
    let cluster = cluster(&installed(), &place);
    let closed = place.path().join("closed");
    let within = closed.join("within");
    fs::create_dir_all(&within).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    fs::write(within.join("file"), "for root").unwrap();
    assert!(!as_server(&cluster.account, Path::new("/"), &format!("cat {}/file", within.display())));
    // A link in /proc leads to the file of a descriptor, past every directory above it.
    let held = File::open(&within).unwrap();
    let (real, link) = (cluster.data_dir().join("real"), cluster.data_dir().join("link"));
    assert!(as_server(&cluster.account, &cluster.data_dir(), "mkdir real && echo own >real/file"));
    symlink(format!("/proc/self/fd/{}", held.as_raw_fd()), &link).unwrap();
    let kept = cluster.root.join("snapshots/x/data");
    let is_stolen = || {
        ["real", "link"].iter().map(|name| kept.join(name)).any(|dir| {
            !dir.is_symlink() && fs::read_to_string(dir.join("file")).is_ok_and(|text| text == "for root")
        })
    };
    let mut n_taken = 0;
    // On a busy machine all snapshots of one race may fail, which proves nothing.
    for _ in 0..10 {
        against(
            &cluster.account,
            || exchange(&real, &link),
            || {
                n_taken += usize::from(cluster.snapshot("x").is_ok());
                is_stolen() || {
                    cluster.remove_snapshot("x").ok();
                    false
                }
            },
        );
        if n_taken > 0 || is_stolen() {
            break;
        }
    }
    assert!(!is_stolen(), "after {n_taken} snapshots");
    assert!(n_taken > 0, "every snapshot failed");
}

#[test]
fn a_link_swapped_in_while_sizes_are_added_up_is_not_followed() {
    if !is_root("a race with the server's user") {
        return;
    }
    const FAR_TOO_MUCH: u64 = 1 << 40;
    let place = place();
    let cluster = cluster(&installed(), &place);
    let precious = precious(&place);
    File::create(precious.join("vast")).unwrap().set_len(FAR_TOO_MUCH).unwrap();
    let (real, link) = (cluster.data_dir().join("base/1"), cluster.data_dir().join("base/link"));
    symlink(&precious, &link).unwrap();
    let workspace = Workspace::open(place.path()).unwrap();
    let mut bytes_max = 0;
    against(
        &cluster.account,
        || exchange(&real, &link),
        || {
            let listed = workspace.list().unwrap();
            let entry = listed.iter().find(|entry| entry.root == cluster.root).unwrap();
            bytes_max = entry.bytes.max(bytes_max);
            bytes_max >= FAR_TOO_MUCH
        },
    );
    assert!((1..FAR_TOO_MUCH).contains(&bytes_max), "{bytes_max}");
}

#[test]
fn pipes_in_the_data_directory_do_not_block() {
    let place = place();
    let cluster = cluster(&installed(), &place);
    let data = cluster.data_dir();
    cluster.snapshot("before").unwrap();
    fifo(&data.join("postmaster.pid"));
    fifo(&data.join("base/pipe"));
    let workspace = Workspace::open(place.path()).unwrap();
    let listed = in_time(move || workspace.list().unwrap());
    assert_eq!((listed[0].server_pid, listed[0].snapshots.len()), (None, 1));
    let copy = cluster.clone();
    let taken = in_time(move || copy.snapshot("after").unwrap());
    assert!(taken.n_files > 900);
    let mut copy = cluster.clone();
    in_time(move || copy.restore("before").unwrap());
    assert!(!data.join("base/pipe").exists() && !data.join("postmaster.pid").exists());
    fifo(&data.join("global/pg_control"));
    let copy = cluster.clone();
    in_time(move || copy.control_file().unwrap_err());
    in_time(move || cluster.remove().unwrap());
}

#[test]
fn pipes_in_place_of_our_own_files_do_not_block() {
    let place = place();
    let mut cluster = cluster(&installed(), &place);
    cluster.snapshot("x").unwrap();
    fifo(&cluster.root.join("snapshots/x/snapshot.json"));
    let text = in_time({
        let mut cluster = cluster.clone();
        move || format!("{:#}", cluster.restore("x").unwrap_err())
    });
    assert!(text.contains("has no snapshot `x`"), "{text}");
    fifo(&cluster.log_path());
    let server = in_time({
        let cluster = cluster.clone();
        move || OwnServer::start(&cluster, &settings(&[])).unwrap()
    });
    server.stop(StopMode::Fast).unwrap();
    fifo(&place.path().join("cluster.lock"));
    fifo(&cluster.root.join("pgdyno-cluster.json"));
    let workspace = Workspace::open(place.path()).unwrap();
    let listed = in_time(move || (workspace.list().unwrap(), workspace.remove("cluster").unwrap_err()));
    assert_eq!(listed.0[0].facts, None);
    cluster.facts.labels.clear();
}

#[test]
fn a_pipe_in_a_directory_named_like_ours_does_not_block_the_sweep() {
    let account = Account::choose().unwrap();
    let dir = tempfile::Builder::new().prefix("pgdyno-planted-").tempdir_in("/tmp").unwrap();
    fifo(&dir.path().join("owner.json"));
    // Created by the server's user.
    chown(dir.path(), Some(account.uid), Some(account.gid)).unwrap();
    let swept = in_time(server::process::socket::sweep_sockets);
    assert!(swept.iter().all(|swept| swept.path != dir.path()), "{swept:?}");
    assert!(dir.path().exists());
}

#[test]
fn a_process_that_the_servers_user_names_as_its_server_is_left_alone() {
    if !is_root("a process of root") {
        return;
    }
    let place = place();
    let cluster = cluster(&installed(), &place);
    // Root works in the data directory, as an administrator's shell may.
    let mut bystander = Command::new("sleep").arg("300").current_dir(cluster.data_dir()).spawn().unwrap();
    let script = format!("echo {} >postmaster.pid", bystander.id());
    let planted = as_server(&cluster.account, &cluster.data_dir(), &script);
    let found = cluster.running_pid();
    let removed = cluster.remove();
    let is_alive = bystander.try_wait().unwrap().is_none();
    bystander.kill().unwrap();
    bystander.wait().unwrap();
    assert!(planted && is_alive);
    assert_eq!(found, None);
    removed.unwrap();
}

#[test]
fn binaries_are_tried_with_the_rights_of_the_servers_user() {
    let place = place();
    let bin = place.path().join("bin");
    let open = place.path().join("open");
    for dir in [&bin, &open] {
        fs::create_dir(dir).unwrap();
    }
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let who = open.join("who");
    // Another process writes them, because a file that this one has open for writing cannot be executed.
    let script = format!(
        "for name in postgres initdb; do printf '%s\\n' '#!/bin/sh' 'id -u >>{0}' 'id -G >>{0}' \
         'echo \"postgres (PostgreSQL) 15.1\"' >$name; chmod 755 $name; done",
        who.display()
    );
    assert!(Command::new("sh").args(["-c", &script]).current_dir(&bin).status().unwrap().success());
    assert_eq!(Binaries::from_bin_dir(&bin).unwrap().version_num, 150_001);
    let account = Account::choose().unwrap();
    let who = fs::read_to_string(who).unwrap();
    let mut lines = who.lines();
    assert_eq!(lines.next(), Some(account.uid.to_string().as_str()));
    if account.is_switched {
        assert_eq!(lines.next(), Some(account.gid.to_string().as_str()), "groups of root were kept");
    }
}

#[test]
fn a_lock_that_is_a_link_is_not_followed() {
    let place = place();
    let workspace = Workspace::open(place.path()).unwrap();
    let precious = precious(&place);
    let key = ClusterKey { source: "15 x".to_string(), parts: std::collections::BTreeMap::new() };
    let lock = place.path().join(format!("{}.lock", key.directory_name()));
    symlink(precious.join("kept"), &lock).unwrap();
    assert!(workspace.claim(&key).is_err());
    assert_eq!(fs::read_to_string(precious.join("kept")).unwrap(), "kept");
}

#[test]
fn places_that_others_can_write_are_refused() {
    let place = place();
    let open = place.path().join("open");
    fs::create_dir(&open).unwrap();
    fs::set_permissions(&open, Permissions::from_mode(0o777)).unwrap();
    let error = format!("{:#}", Workspace::open(&open.join("clusters")).unwrap_err());
    assert!(error.contains("can be written by every user"), "{error}");
    assert!(!open.join("clusters").exists());
    let options = InitOptions { wal_directory: Some(open.clone()), ..InitOptions::default() };
    let root = place.path().join("cluster");
    let error = format!("{:#}", Cluster::create(&installed(), &root, &options).unwrap_err());
    assert!(error.contains("can be written by every user"), "{error}");
    assert!(!root.exists() && names_in(&open).is_empty());
    if geteuid().is_root() {
        fs::set_permissions(&open, Permissions::from_mode(0o755)).unwrap();
        chown(&open, Some(54_321), None).unwrap();
        let error = format!("{:#}", Cluster::create(&installed(), &root, &options).unwrap_err());
        assert!(error.contains("belongs to user id 54321"), "{error}");
        chown(&open, Some(0), None).unwrap();
        let link = place.path().join("link");
        symlink(&open, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(54_321), None).unwrap();
        let options = InitOptions { wal_directory: Some(link), ..InitOptions::default() };
        let error = format!("{:#}", Cluster::create(&installed(), &root, &options).unwrap_err());
        assert!(error.contains("who could redirect it"), "{error}");
        assert!(!root.exists() && names_in(&open).is_empty());
    }
}

#[test]
fn the_wal_of_another_cluster_is_not_removed() {
    let place = place();
    let wal = place.path().join("wal");
    fs::create_dir(&wal).unwrap();
    let options = InitOptions { wal_directory: Some(wal), ..InitOptions::default() };
    let make = |name: &str| Cluster::create(&installed(), &place.path().join(name), &options).unwrap();
    let (kept, mut removed) = (make("kept"), make("removed"));
    let own = removed.facts.wal_holder.clone().unwrap();
    removed.facts.wal_holder = kept.facts.wal_holder.clone();
    let error = format!("{:#}", removed.clone().remove().unwrap_err());
    assert!(error.contains("says that it belongs to cluster"), "{error}");
    assert!(kept.wal_dir().join("archive_status").exists());
    removed.facts.wal_holder = Some(own.clone());
    removed.remove().unwrap();
    assert!(!own.exists());
    kept.remove().unwrap();
}
