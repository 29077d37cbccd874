# Whether the same sources give the same bytes: everything is made again in a directory of another name, with a build directory of
# its own, and compared with dist/. Read by `package`.

verify() {
    [[ -e dist/SHA256SUMS ]] || fail "nothing is in dist/ to compare with; run ./package first"
    [[ -z $(git status --porcelain) ]] || fail "the sources differ from the last commit; commit them, and run ./package again"
    # Not local: it is removed when the script ends.
    elsewhere=$(mktemp -d "${TMPDIR:-/var/tmp}/pgdyno-again-XXXXXX")
    trap 'rm -rf "$elsewhere"' EXIT
    git clone -q . "$elsewhere/sources"
    say "making it again in $elsewhere"
    # The tools are the same; the build directory is not.
    (cd "$elsewhere/sources" && unset CARGO_TARGET_DIR && PGDYNO_PACKAGE_TOOLS=$tools ./package "$@" >"$elsewhere/output") ||
        { tail -n 30 "$elsewhere/output" >&2; fail "the second build failed"; }
    compare dist "$elsewhere/sources/dist"
}

compare() {
    local name differs=false
    for name in $(cd "$2" && ls); do
        if cmp -s "$1/$name" "$2/$name"; then say "the same: $name"; else say "DIFFERS: $name"; differs=true; fi
    done
    ! $differs || fail "the second build differs from the first one; is it of the same commit, compiler and list of architectures?"
}
