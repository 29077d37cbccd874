# Man pages and completions, written by the program itself, and the documents of a package. Read by `package`.

# Leaves in $1/man and $1/completions what is the same for every architecture: written by the program for this machine if that was
# built ($2), else by one that is built for it.
write_texts() {
    local texts=$1 program=$2
    if [[ -z $program ]]; then
        say "building a program for this machine, which writes the man pages"
        cargo build -q --locked -p pgdyno
        program=$target/debug/pgdyno
    fi
    rm -rf "$texts"
    mkdir -p "$texts/completions"
    "$program" man "$texts/man" 2>/dev/null
    gzip -9n "$texts/man/"*.1
    local shell
    for shell in bash zsh fish; do
        "$program" completions "$shell" >"$texts/completions/$shell"
    done
}

# Debian's own changelog: what changed is in the one of the sources, which is installed next to it.
debian_changelog() {
    printf 'pgdyno (%s-1) unstable; urgency=medium\n\n  * Release %s: see changelog.gz.\n\n -- %s  %s\n' \
        "$version" "$version" "$maintainer" "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")"
}

# The documents of a package, in $1; $2 has the lists that were made of its program. What README links to lies where its links lead.
write_documents() {
    local documents=$1 lists=$2 file
    mkdir -p "$documents"
    install -m 644 LICENSE-MIT LICENSE-APACHE packaging/copyright "$documents"
    install -m 644 README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md FORMAT.md METHODOLOGY.md SECURITY.md STYLE.md "$documents"
    # Only what was committed: other files here are nobody's documents. An archive of the sources has nothing else.
    local listed=(docs bench/RESULTS.md crates/report/assets/echarts/NOTICE)
    { git ls-files "${listed[@]}" 2>/dev/null || find "${listed[@]}" -type f; } | sort | while read -r file; do
        install -D -m 644 "$file" "$documents/$file"
    done
    gzip -9n <"$lists/THIRD-PARTY.txt" >"$documents/THIRD-PARTY.txt.gz"
    gzip -9n <CHANGELOG.md >"$documents/changelog.gz"
    debian_changelog | gzip -9n >"$documents/changelog.Debian.gz"
}
