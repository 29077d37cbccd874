//! Tests of which caches are used, and which are refused before anything in them is run.

use super::*;

#[test]
fn a_version_that_no_source_has_is_refused_without_the_network() {
    let dir = tempfile::tempdir().unwrap();
    for asked in ["99", "19", "19.1"] {
        let error = fetch(&Cache::at(dir.path()), &asked.parse().unwrap(), &mut |_| {}).unwrap_err();
        let text = error.to_string();
        assert!(text.contains(&format!("no server binaries for `{asked}`")), "{text}");
        assert!(text.contains("9.6, 10, 11"), "{text}");
    }
}

#[test]
fn a_cached_release_with_another_hash_than_its_pin_is_refused() {
    let pin = &pins::PINS[0];
    let origin =
        |sha256: &str| BinariesOrigin::Fetched { release: pin.release.into(), sha256: sha256.into() };
    assert!(check_hash(&origin(pin.sha256), pin.release, Some(pin)).is_ok());
    assert!(check_hash(&origin("00"), pin.release, None).is_ok());
    let error = check_hash(&origin("00"), pin.release, Some(pin)).unwrap_err();
    assert!(error.to_string().contains("it was not used"), "{error}");
}

/// The pinned release of this machine, as if it had been fetched: programs that print its version and leave a trace
/// when they are run.
struct Planted {
    place: tempfile::TempDir,
    cache: Cache,
    dir: PathBuf,
    version: PgVersion,
}

impl Planted {
    /// `None` on an architecture without pins, where nothing is found without the network.
    fn new() -> Option<Planted> {
        let pin = pins::pin_of_series(env::consts::ARCH, "18")?;
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), Permissions::from_mode(0o755)).unwrap();
        // Any user may leave the trace.
        fs::create_dir(place.path().join("traces")).unwrap();
        fs::set_permissions(place.path().join("traces"), Permissions::from_mode(0o777)).unwrap();
        let cache = Cache::at(place.path().join("cache"));
        let dir = cache.release_dir(pin.release);
        let bin = dir.join("bin");
        trust::make_directory(&bin).unwrap();
        let trace = place.path().join("traces/trace").display().to_string();
        let says = format!("#!/bin/sh\necho x >>{trace}\necho 'postgres (PostgreSQL) {}'\n", pin.release);
        for name in ["postgres", "initdb"] {
            crate::binaries::write_program(&bin.join(name), &says);
        }
        let planted = Planted { place, cache, dir, version: "18".parse().unwrap() };
        planted.write_receipt();
        Some(planted)
    }

    fn write_receipt(&self) {
        let pin = pins::pin_of_series(env::consts::ARCH, "18").unwrap();
        let tree = TreeListing::read(&self.dir, RECEIPT).unwrap();
        let receipt = Receipt { release: pin.release.into(), sha256: pin.sha256.into(), tree };
        let path = self.dir.join(RECEIPT);
        fs::write(&path, serde_json::to_vec(&receipt).unwrap()).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    }

    /// Asks for the release; fails the test if a program was run that should not have been.
    fn refusal(&self) -> String {
        let refused = fetch(&self.cache, &self.version, &mut |_| {}).map(drop);
        assert!(!self.place.path().join("traces/trace").exists(), "it was run: {refused:?}");
        match refused {
            Err(FetchError::Unusable(error)) => format!("{error:#}"),
            other => panic!("{other:?}"),
        }
    }

    fn set(&self, path: &Path, mode: u32) {
        fs::set_permissions(self.dir.join(path), Permissions::from_mode(mode)).unwrap();
    }
}

#[test]
fn a_cache_that_is_ours_and_as_it_was_is_used() {
    let Some(planted) = Planted::new() else { return };
    let found = fetch(&planted.cache, &planted.version, &mut |_| {}).unwrap();
    assert_eq!(found.series(), "18");
    assert_eq!(planted.cache.fetched(), [found.version]);
    assert!(planted.place.path().join("traces/trace").exists(), "a program that is run leaves a trace");
}

#[test]
fn a_cache_that_others_could_have_filled_is_not_run() {
    type Plant = fn(&Planted);
    let plants: [(&str, Plant); 5] = [
        ("cache` can be written by every user", |it| it.set(&it.cache.dir, 0o777)),
        ("postgres` can be written by every user", |it| it.set(&it.cache.dir.join("postgres"), 0o777)),
        ("can be written by every user", |it| it.set(&it.dir, 0o777)),
        ("bin` in", |it| it.set(Path::new("bin"), 0o777)),
        ("receipt", |it| {
            let (receipt, forged) = (it.dir.join(RECEIPT), it.place.path().join("receipt"));
            fs::rename(&receipt, &forged).unwrap();
            std::os::unix::fs::symlink(&forged, &receipt).unwrap();
        }),
    ];
    for (expected, plant) in plants {
        let Some(planted) = Planted::new() else { return };
        plant(&planted);
        let refusal = planted.refusal();
        let is_said =
            refusal.contains(expected) || expected == "receipt" && refusal.contains("symbolic link");
        assert!(is_said, "{expected}: {refusal}");
    }
}

#[test]
fn a_cache_of_another_user_is_not_run() {
    // Only root can be another user.
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let Some(planted) = Planted::new() else { return };
    let nobody = 65_534;
    // All files of it, copied by a process of that user.
    fs::set_permissions(planted.place.path(), Permissions::from_mode(0o1777)).unwrap();
    let mut plant = std::process::Command::new("cp");
    let theirs = planted.place.path().join("theirs");
    std::os::unix::process::CommandExt::uid(&mut plant, nobody);
    assert!(plant.arg("-r").arg(&planted.cache.dir).arg(&theirs).status().unwrap().success());
    let theirs = Planted {
        cache: Cache::at(&theirs),
        dir: theirs.join(planted.dir.strip_prefix(&planted.cache.dir).unwrap()),
        place: tempfile::tempdir().unwrap(),
        version: planted.version.clone(),
    };
    let refusal = theirs.refusal();
    assert!(refusal.contains("belongs to user `nobody`") && refusal.contains("PGDYNO_CACHE"), "{refusal}");
    assert!(theirs.cache.fetched().is_empty());
    assert!(!planted.place.path().join("traces/trace").exists(), "it was run");
    // The receipt alone, or one program, which that user could change after it was looked at.
    for name in [RECEIPT, "bin/postgres"] {
        let Some(planted) = Planted::new() else { return };
        std::os::unix::fs::chown(planted.dir.join(name), Some(nobody), None).unwrap();
        let refusal = planted.refusal();
        assert!(refusal.contains("belongs to user `nobody`"), "{name}: {refusal}");
    }
}

#[test]
fn a_program_that_was_changed_is_not_run() {
    let Some(planted) = Planted::new() else { return };
    let program = planted.dir.join("bin/initdb");
    let text = fs::read_to_string(&program).unwrap();
    fs::write(&program, text.replace("PostgreSQL", "postgreSQL")).unwrap();
    let refusal = planted.refusal();
    assert!(
        refusal.contains("is not as it was fetched") && refusal.contains("`bin/initdb` was"),
        "{refusal}"
    );
}
