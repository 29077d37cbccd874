//! Copies of this program on drivers' machines, with a shell script as the program.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::experiment::driver::DriverSpec;
use nix::unistd::geteuid;

use super::stand_in::{error, greet, liar, program, spec, write};
use crate::upload::{ProgramFile, ProgramFiles, file_name, words_to_receive};

/// A machine: its home, and what is typed before each command there.
struct Machine {
    dir: tempfile::TempDir,
}

impl Machine {
    fn new() -> Machine {
        Machine { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A driver with `upload` in a home directory.
    fn driver_in(&self, home: &str, program: &str) -> DriverSpec {
        let home = format!("HOME={home}");
        let via = ["env", "-u", "XDG_CACHE_HOME", &home, "sh", "-c"].map(str::to_string);
        DriverSpec { upload: true, ..spec("d", &via, program.as_ref()) }
    }

    fn driver(&self, program: &str) -> DriverSpec {
        self.driver_in(&self.path().join("home").display().to_string(), program)
    }

    fn copies(&self) -> PathBuf {
        self.path().join("home/.cache/pgdyno/drivers")
    }

    fn names_of_copies(&self) -> Vec<String> {
        let entries = fs::read_dir(self.copies()).into_iter().flatten();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

const MISSING: &str = "/nonexistent/pgdyno";

#[test]
fn a_copy_is_put_there_once_and_kept_by_its_hash() {
    let machine = Machine::new();
    let own = program(machine.path(), "own", "this build");
    let other = program(machine.path(), "other", "another build");
    let sha256 = files::sha256(&own).unwrap();
    let copy = machine.copies().join(&sha256);
    // Where our build is, nothing is put.
    let hosts = |program: &Path| {
        let records = greet(&[machine.driver(&program.display().to_string())], &own).unwrap();
        assert_eq!(records[0].hello.build.sha256, sha256);
        records[0].hello.host.clone()
    };
    assert_eq!(hosts(&own), own.display().to_string());
    assert!(!copy.exists());
    // Copies that nobody has used for a month make room for it, and only those.
    fs::create_dir_all(machine.copies()).unwrap();
    for name in ["a".repeat(64), "b".repeat(64), "notes".to_string()] {
        write(&machine.copies(), &name, "x");
    }
    for name in ["a".repeat(64), "notes".to_string()] {
        testbed::run(Command::new("touch").args(["-d", "40 days ago"]).arg(machine.copies().join(name)));
    }
    assert_eq!(hosts(&other), copy.display().to_string());
    let mut names = machine.names_of_copies();
    names.sort();
    let mut expected = vec!["b".repeat(64), sha256.clone(), "notes".to_string()];
    expected.sort();
    assert_eq!(names, expected);
    assert_eq!(fs::metadata(&copy).unwrap().permissions().mode() & 0o777, 0o700);
    let inode = fs::metadata(&copy).unwrap().ino();
    assert_eq!(hosts(MISSING.as_ref()), copy.display().to_string());
    assert_eq!(hosts(&other), copy.display().to_string());
    assert_eq!(fs::metadata(&copy).unwrap().ino(), inode, "it was put there again");
}

#[test]
fn what_others_put_under_its_name_is_never_run() {
    let machine = Machine::new();
    let own = program(machine.path(), "own", "this build");
    let sha256 = files::sha256(&own).unwrap();
    fs::create_dir_all(machine.copies()).unwrap();
    let copy = machine.copies().join(&sha256);
    let whole = fs::read_to_string(&own).unwrap();
    let plants: [&dyn Fn(); 3] = [
        &|| drop(liar(&machine.copies(), &sha256, &sha256)),
        &|| drop(write(&machine.copies(), &sha256, &whole[..whole.len() - 1])),
        &|| {
            fs::remove_file(&copy).unwrap();
            std::os::unix::fs::symlink(liar(machine.path(), "liar", &sha256), &copy).unwrap();
        },
    ];
    for plant in plants {
        plant();
        let records = greet(&[machine.driver(MISSING)], &own).unwrap();
        assert_eq!(records[0].hello.host, copy.display().to_string());
        assert_eq!(files::sha256(&copy).unwrap(), sha256);
        assert!(fs::symlink_metadata(&copy).unwrap().is_file());
    }
}

#[test]
fn a_copy_that_arrives_in_part_gets_no_name() {
    let machine = Machine::new();
    let own = program(machine.path(), "own", "this build");
    let sha256 = files::sha256(&own).unwrap();
    let bytes = fs::read(&own).unwrap();
    let driver = machine.driver(MISSING);
    let words = words_to_receive(&driver);
    for is_killed in [false, true] {
        let mut child = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdin.write_all(b"word\n").unwrap();
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.contains("\"nonce\":\"word\""), "{line}");
        stdin.write_all(format!("{sha256} {}\n", bytes.len()).as_bytes()).unwrap();
        stdin.write_all(&bytes[..bytes.len() / 2]).unwrap();
        if is_killed {
            while machine.names_of_copies().is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            child.kill().unwrap();
        }
        drop(stdin);
        child.wait().unwrap();
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).unwrap();
        let left = machine.names_of_copies();
        if is_killed {
            assert!(left.len() == 1 && left[0].starts_with("part."), "{left:?}");
        } else {
            assert!(rest.contains("\"message\":\"hash\"") && left.is_empty(), "{rest} {left:?}");
        }
    }
    let records = greet(&[driver], &own).unwrap();
    assert_eq!(records[0].hello.host, machine.copies().join(&sha256).display().to_string());
}

#[test]
fn a_place_that_takes_no_copy_is_named_with_what_to_do() {
    let machine = Machine::new();
    let own = program(machine.path(), "own", &"x".repeat(300_000));
    let refused = |driver: DriverSpec, expected: &[&str]| {
        let error = error(&[driver], &own);
        assert!(error.starts_with("driver `d`"), "{error}");
        for expected in expected {
            assert!(error.contains(expected), "{expected}: {error}");
        }
    };
    refused(machine.driver_in("/dev/null", MISSING), &["that directory cannot be written", "/dev/null"]);
    // A machine of another architecture: uname says so.
    let bin = machine.path().join("bin");
    fs::create_dir(&bin).unwrap();
    write(&bin, "uname", "#!/bin/sh\necho riscv64\n");
    let path = std::env::var("PATH").unwrap();
    let mut elsewhere = machine.driver(MISSING);
    elsewhere.via.insert(3, format!("PATH={}:{path}", bin.display()));
    let name = file_name("riscv64");
    refused(elsewhere, &["another architecture (riscv64)", &name, "./package"]);
    if !geteuid().is_root() {
        return;
    }
    for (option, expected) in [
        ("noexec", ["does not start there", "noexec"]),
        ("size=64k", ["cannot be written there; is the file system", "No space left on device"]),
    ] {
        let home = machine.path().join(option);
        fs::create_dir(&home).unwrap();
        let script = format!("mount -t tmpfs -o {option} none {}; shift; eval \"$1\"\n", home.display());
        let script = write(machine.path(), "mount.sh", &script).display().to_string();
        let mut driver = machine.driver_in(&home.display().to_string(), MISSING);
        driver.via =
            [&driver.via[..4], &["unshare", "--mount", "sh", &script, "-c"].map(str::to_string)].concat();
        refused(driver, &expected);
    }
}

#[test]
fn the_program_of_another_architecture_comes_from_the_same_package() {
    let machine = Machine::new();
    let own = program(machine.path(), "pgdyno", "this build");
    let sibling = program(machine.path(), &file_name("riscv64"), "this build for another machine");
    let sum = |path: &Path| files::sha256(path).unwrap();
    let sums = format!("{}  pgdyno\n{}  {}\n", sum(&own), sum(&sibling), file_name("riscv64"));
    write(machine.path(), "SHA256SUMS", &sums);
    let bin = machine.path().join("bin");
    fs::create_dir(&bin).unwrap();
    write(&bin, "uname", "#!/bin/sh\necho riscv64\n");
    let mut driver = machine.driver(MISSING);
    driver.via.insert(3, format!("PATH={}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let records = greet(std::slice::from_ref(&driver), &own).unwrap();
    assert_eq!(records[0].hello.build.sha256, sum(&sibling));
    // One that was installed by hand is as good, without `upload`.
    let by_hand = DriverSpec { upload: false, program: sibling.display().to_string(), ..driver.clone() };
    greet(std::slice::from_ref(&by_hand), &own).unwrap();
    // Another file has taken its place since.
    fs::remove_dir_all(machine.path().join("home")).unwrap();
    program(machine.path(), &file_name("riscv64"), "another build");
    let error = error(&[driver], &own);
    assert!(error.contains("has another SHA-256 than it should have"), "{error}");
    let error = super::stand_in::error(&[by_hand], &own);
    assert!(error.contains("is another build") && error.contains("come from one `./package`"), "{error}");
}

#[test]
fn only_a_list_that_names_this_program_names_its_siblings() {
    let own = |sha256: &str| ProgramFile {
        architecture: "x86_64".into(),
        path: "/opt/pgdyno".into(),
        sha256: sha256.into(),
    };
    let sums =
        format!("11  {}\n22  {}\n33  else\n4;4  {}\n", file_name("x86_64"), file_name("a"), file_name("b"));
    for (sha256, expected) in [("11", vec!["22"]), ("55", vec![])] {
        let found = crate::upload::siblings(&sums, &own(sha256));
        let found: Vec<&str> = found.iter().map(|program| program.sha256.as_str()).collect();
        assert_eq!(found, expected);
    }
    let machine = Machine::new();
    let own = program(machine.path(), "own", "without a list");
    fs::set_permissions(&own, Permissions::from_mode(0o755)).unwrap();
    assert!(ProgramFiles::next_to(&own).unwrap().of("riscv64").is_none());
}
