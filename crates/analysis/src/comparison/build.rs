//! Build flags of a server that change code. Which builds are compared, and how much a difference weighs, is decided
//! elsewhere.

use std::collections::BTreeSet;

/// Prefix of optimization levels: if there are several, the compiler uses the last (GCC's manual, 3.11).
const LEVEL: &str = "-O";
/// Flags that every version's configure adds for correctness, some under newer names.
const OF_ALL: &[&str] = &["-fno-strict-aliasing", "-fwrapv", "-fexcess-precision=standard"];

/// The optimization level that `CFLAGS` result in, if they name one.
pub(crate) fn level(flags: &str) -> Option<&str> {
    flags.split_whitespace().rfind(|flag| flag.starts_with(LEVEL))
}

/// Flags of `CFLAGS` that change code, sorted: no warnings, no directories, nothing for debuggers.
pub(crate) fn optimizing(flags: &str) -> Vec<&str> {
    let is_harmless = |flag: &str| {
        ["prefix-map", "-fdebug", "-ffile", "-fno-omit", "-fmessage"].iter().any(|part| flag.contains(part))
    };
    let changes =
        |flag: &&str| [LEVEL, "-m", "-f"].iter().any(|start| flag.starts_with(start)) && !is_harmless(flag);
    let level = level(flags);
    let is_last = |flag: &&str| !flag.starts_with(LEVEL) || level == Some(*flag);
    let chosen =
        flags.split_whitespace().filter(changes).filter(is_last).filter(|flag| !OF_ALL.contains(flag));
    chosen.collect::<BTreeSet<&str>>().into_iter().collect()
}

/// Words of `CONFIGURE` that concern more than warnings, debuggers and directories of the installation.
pub(crate) fn configured(options: &str) -> Vec<&str> {
    let words = options.split_whitespace().map(|word| word.trim_matches('\''));
    let is_idle = |word: &str| {
        // `CFLAGS=-Wall` begins an option with several flags.
        let flag = word.split_once("=-").map_or(word, |(name, _)| &word[name.len() + 1..]);
        let is_warning = [word, flag].iter().any(|word| {
            // Options for linker and assembler begin in the same way.
            word.starts_with("-W") && !["-Wl,", "-Wa,"].iter().any(|start| word.starts_with(start))
        });
        is_warning || ["dir=", "prefix=", "prefix-map"].iter().any(|part| word.contains(part)) || flag == "-g"
    };
    words.filter(|word| !word.is_empty() && !is_idle(word)).collect()
}

/// The words that only one side has, each side as text.
pub(crate) fn differing(a: &[&str], b: &[&str]) -> [String; 2] {
    let only = |own: &[&str], other: &[&str]| {
        let own: Vec<&str> = own.iter().copied().filter(|word| !other.contains(word)).collect();
        own.join(" ")
    };
    let texts = [only(a, b), only(b, a)];
    if texts.iter().all(String::is_empty) {
        texts
    } else {
        texts.map(|text| if text.is_empty() { "nothing".to_string() } else { text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_flags_that_change_code_tell_builds_apart() {
        for (flags, expected) in [
            ("-Wall -Wmissing-prototypes -O2 -g", "-O2"),
            (
                "-Wall -fno-strict-aliasing -fwrapv -g -O2 -fstack-protector-strong -ffile-prefix-map=/build/x=. -Wformat",
                "-O2 -fstack-protector-strong",
            ),
            ("-Os -march=native", "-Os -march=native"),
            ("-O0 -flto -O2", "-O2 -flto"),
            ("-Wall -Wshadow=compatible-local -O2", "-O2"),
        ] {
            assert_eq!(optimizing(flags).join(" "), expected, "{flags}");
        }
    }

    #[test]
    fn options_of_an_installation_and_warnings_are_left_out() {
        let options =
            "'--prefix=/opt/15' '--with-lz4' 'CFLAGS=-g -O2 -Wall' 'LDFLAGS=-Wl,-z,now' '--libdir=/lib'";
        assert_eq!(configured(options), ["--with-lz4", "-O2", "LDFLAGS=-Wl,-z,now"]);
        assert_eq!(configured("'CFLAGS=-Wall -O2' 'CXXFLAGS=-O3'"), ["-O2", "CXXFLAGS=-O3"]);
    }

    #[test]
    fn only_differences_are_reported() {
        for (a, b, expected) in [
            (&["-O2"][..], &["-O2"][..], ["", ""]),
            (&["-O2", "-flto"], &["-O3", "-flto"], ["-O2", "-O3"]),
            (&["-O2", "-flto"], &["-O2"], ["-flto", "nothing"]),
        ] {
            assert_eq!(differing(a, b), expected);
        }
    }
}
