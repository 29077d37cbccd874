//! `pgdyno pack` and `pgdyno unpack`: results as one file, for somebody else.

use std::path::{Path, PathBuf};

use anyhow::Result;
use model::text::prose::{bytes, plural};
use store::Extent;

use crate::front::cli::packed::{PackArgs, UnpackArgs};
use crate::front::cli::stored::RESULTS;
use crate::{Exit, print, say};

/// End of a packed file's name.
const END: &str = ".tar.gz";

/// Packs a results directory.
pub(crate) fn pack(args: &PackArgs) -> Result<Exit> {
    let to = match &args.output {
        Some(file) => file.clone(),
        None => PathBuf::from(store::name_of(&args.dir) + END),
    };
    let extent = if args.all { Extent::All } else { Extent::Report };
    let packed = store::pack(&args.dir, &to, extent, env!("CARGO_PKG_VERSION"))?;
    for path in &packed.hidden {
        say(&format!(
            "note: `{path}` held a secret, which an earlier version had written; it is hidden in the archive"
        ));
    }
    let size = std::fs::metadata(&to).map_or(0, |facts| facts.len());
    say(&format!(
        "`{}` holds {}, {} in {}, without passwords; it names {}",
        to.display(),
        plural(packed.files.len(), "file"),
        bytes(packed.bytes() as f64),
        bytes(size as f64),
        names(&args.dir)
    ));
    print(&format!("{}\n", to.display()))?;
    Ok(Exit::Done)
}

/// Machines and servers that the results name: no secrets, but not for everybody either.
fn names(dir: &Path) -> String {
    let mut names: Vec<String> = Vec::new();
    for record in store::read_records(dir).unwrap_or_default() {
        let hosts = [&record.host, &record.driver_host].into_iter().flatten();
        let found = hosts.map(|host| host.hostname.clone()).chain([record.case.server.source.to_string()]);
        names.extend(found.filter(|name| !name.is_empty()));
    }
    names.sort();
    names.dedup();
    if names.is_empty() { "no machine".to_string() } else { names.join(", ") }
}

/// Unpacks results.
pub(crate) fn unpack(args: &UnpackArgs) -> Result<Exit> {
    let to = args.output.clone().unwrap_or_else(|| Path::new(RESULTS).join(stem(&args.file)));
    let unpacked = store::unpack(&args.file, &to, args.limit.size_limit)?;
    let to = to.display();
    say(&format!(
        "unpacked {} of pgdyno {} into `{to}`; pgdyno report {to}",
        plural(unpacked.n_files, "file"),
        unpacked.tool_version
    ));
    Ok(Exit::Done)
}

/// Name of a packed file without its end.
fn stem(file: &Path) -> String {
    let name = file.file_name().map_or("results".into(), |name| name.to_string_lossy());
    name.strip_suffix(END).unwrap_or(&name).to_string()
}
