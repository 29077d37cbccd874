#!/usr/bin/env bash
# Compares two sides in a job of CI, leaves the report for the job's artifacts, and ends with the verdict.
#
#     compare.sh builds  BASE HEAD [-- OPTIONS]    two builds of PostgreSQL: directories of programs, or releases (17, 18.1), or
#                                                  with PGDYNO_SOURCE commits of a repository, which are built
#     compare.sh schemas BASE HEAD [-- OPTIONS]    two versions of a schema: files of SQL, or directories of them in order of names
#
# OPTIONS go to `pgdyno compare`. The environment:
#
#     PGDYNO_PACKAGE   package of pgdyno to install first: a .deb, a .tar.gz or the program, as a file or an https address
#     PGDYNO_SHA256    hash of that package; required for an address
#     PGDYNO_SOURCE    repository of PostgreSQL
#     PGDYNO_RESULTS   directory for the report, a table of the runs and the packed results (comparison)
#     PGDYNO_FAIL_ON   slower (default) or different
#     PGDYNO_AGAIN     1: a comparison that fails is measured once more, and fails only if that fails, too
#
# Exit codes are those of `pgdyno compare --fail-on`: 0 pass, 4 slower (or different), 2 no verdict, 1 it could not be done.
set -euo pipefail

say() { printf 'compare: %s\n' "$*" >&2; }
fail() { say "$*"; summarize "**No comparison:** $*"; exit 1; }

# The page of the job, where it has one (GitHub Actions).
summarize() { [[ -z ${GITHUB_STEP_SUMMARY:-} ]] || printf '%s\n\n' "$1" >>"$GITHUB_STEP_SUMMARY"; }

as_root() { if ((EUID == 0)); then "$@"; else sudo "$@"; fi; }

# --- pgdyno --------------------------------------------------------------------------------------------------------

install_pgdyno() {
    [[ -n ${PGDYNO_PACKAGE:-} ]] || return 0
    local file=$PGDYNO_PACKAGE
    if [[ $file == https://* ]]; then
        [[ -n ${PGDYNO_SHA256:-} ]] || fail "PGDYNO_SHA256 must hold the hash of what $file is to be"
        # What follows the path may be a token, and hides the ending.
        file=${file%%[?#]*}
        file=$place/${file##*/}
        curl -fsSL --retry 3 --proto '=https' -o "$file" "$PGDYNO_PACKAGE" || fail "cannot fetch $PGDYNO_PACKAGE"
    fi
    [[ -f $file ]] || fail "there is no package \`$file\` (PGDYNO_PACKAGE)"
    if [[ -n ${PGDYNO_SHA256:-} ]]; then
        sha256sum --check --status <<<"$PGDYNO_SHA256  $file" || fail "$PGDYNO_PACKAGE is not what PGDYNO_SHA256 says"
    fi
    case $file in
        *.deb) as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$(realpath "$file")" >&2 ||
            fail "cannot install $PGDYNO_PACKAGE" ;;
        *.tar.gz | *.tgz)
            tar -xzf "$file" -C "$place" || fail "cannot unpack $PGDYNO_PACKAGE"
            file=$(find "$place" -name pgdyno -type f -perm -u+x -print -quit)
            [[ -n $file ]] || fail "there is no program pgdyno in $PGDYNO_PACKAGE"
            PATH=${file%/*}:$PATH ;;
        *) install -D -m 755 "$file" "$place/bin/pgdyno" && PATH=$place/bin:$PATH ;;
    esac
}

# --- the sides -----------------------------------------------------------------------------------------------------

# KEY=VALUE for a build: a commit, a directory of programs, or a release.
build() {
    if [[ -n ${PGDYNO_SOURCE:-} ]]; then
        printf 'server.revision=%s' "$1"
    elif [[ -x $1/postgres ]]; then
        printf 'server.bin_dir=%s' "$(realpath "$1")"
    elif [[ $1 =~ ^[0-9]+(\.[0-9]+)?$ ]]; then
        printf 'server.version=%s' "$1"
    else
        fail "\`$1\` is neither a directory with the program postgres nor a release such as 18 or 17.2"
    fi
}

# KEY=VALUE for a schema: its files as a list of TOML.
schema() {
    local file list=
    local -a files=("$1")
    [[ ! -d $1 ]] || files=("$1"/*.sql)
    for file in "${files[@]}"; do
        [[ -f $file ]] || fail "there is no file \`$file\` with SQL"
        [[ $file != *[\"\\]* ]] || fail "\`$file\`: quotes and backslashes in names of files are not supported"
        list+="${list:+, }\"$file\""
    done
    printf 'workload.data={files = [%s]}' "$list"
}

# --- measuring -----------------------------------------------------------------------------------------------------

# Compares in a directory of our own: root measures in none that others can write, as a checkout in a container often is.
compare() {
    local name=$1 code=0
    pgdyno compare --a "$base" --b "$head" --fail-on "${PGDYNO_FAIL_ON:-slower}" --yes -o "$place/$name" "${options[@]}" || code=$?
    keep "$place/$name" "$results/$name"
    if [[ -f $place/$name/report.md ]]; then
        summarize "$(<"$place/$name/report.md")"
    else
        summarize "**No comparison:** pgdyno ended with exit code $code; the log of the job says why."
    fi
    return $code
}

# For the artifacts: the report, the runs as a table, and all that `pgdyno unpack` or `pgdyno repeat` needs.
keep() {
    local file
    for file in report.html report.md runs.csv; do
        [[ ! -f $1/$file ]] || install -D -m 644 "$1/$file" "$2-$file"
    done
    [[ -f $1/plan.json ]] || return 0
    if pgdyno pack "$1" -o "$2.tar.gz" >/dev/null; then chmod 644 "$2.tar.gz"; else say "the results could not be packed"; fi
}

kind=${1:-}
[[ $# -ge 3 && ($kind == builds || $kind == schemas) ]] ||
    fail "usage: compare.sh builds|schemas BASE HEAD [-- OPTIONS of pgdyno compare]"
umask 022
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# Each of these words without its last letter names what a side is made by.
base=$("${kind%s}" "$2") || exit 1
head=$("${kind%s}" "$3") || exit 1
shift 3
[[ ${1:---} == -- ]] || fail "options of pgdyno come after --; \`$1\` does not"
options=("${@:2}")
results=${PGDYNO_RESULTS:-comparison}
mkdir -p "$results"
# What an earlier comparison left here is not an artifact of this one.
rm -f "$results"/{comparison,again}{-report.html,-report.md,-runs.csv,.tar.gz}

install_pgdyno
command -v pgdyno >/dev/null || fail "there is no pgdyno; name its package in PGDYNO_PACKAGE"
version=$(pgdyno --version) || fail "$(command -v pgdyno) does not run; is it what PGDYNO_PACKAGE is to name?"
if [[ $kind == builds && -n ${PGDYNO_SOURCE:-} ]]; then
    git clone -q --no-checkout "$PGDYNO_SOURCE" "$place/source" || fail "cannot clone \`$PGDYNO_SOURCE\` (PGDYNO_SOURCE)"
    options+=(--set "server.source=$place/source")
fi
say "$version: A is $base, B is $head"

code=0
compare comparison || code=$?
if [[ $code == 4 && ${PGDYNO_AGAIN:-} == 1 ]]; then
    say "measured once more, to be sure"
    code=0
    compare again || code=$?
fi
exit $code
