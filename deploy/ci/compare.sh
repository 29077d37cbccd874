#!/usr/bin/env bash
# Compares two sides in a job of CI, leaves the report for the job's artifacts, and ends with the verdict.
#
#     compare.sh builds  BASE HEAD [-- OPTIONS]    two builds of PostgreSQL: directories of programs, or releases (17, 18.1), or
#                                                  with PGDYNO_SOURCE commits of a repository, which are built
#     compare.sh schemas BASE HEAD [-- OPTIONS]    two versions of a schema: files of SQL, or directories of them in order of names
#
# OPTIONS go to `pgdyno compare`. The environment:
#
#     PGDYNO_PACKAGE   package of pgdyno to install first: a .deb, a .tar.gz or the program, as a file or an https address; a user or
#                      token in it (https://USER:TOKEN@..., ...?private_token=TOKEN) is neither shown nor in any program's arguments
#     PGDYNO_SHA256    hash of that package; required for an address
#     PGDYNO_SOURCE    repository of PostgreSQL; the same holds for https://USER:TOKEN@...
#     PGDYNO_RESULTS   directory for the report, a table of the runs and the packed results (comparison)
#     PGDYNO_FAIL_ON   slower (default), different, or what transactions cost: cost:wal=1%,cpu=3%; several with commas between them
#     PGDYNO_AGAIN     1: a comparison that fails is measured once more, and fails only if that fails, too
#
# Exit codes are those of `pgdyno compare --fail-on`: 0 pass, 4 slower (or different), 2 no verdict, 1 it could not be done.
set -euo pipefail
# A shell that traces what it does would show addresses with tokens.
set +x

say() { printf 'compare: %s\n' "$*" >&2; }
fail() { say "$*"; summarize "**No comparison:** $*"; exit 1; }

# The page of the job, where it has one (GitHub Actions).
summarize() { [[ -z ${GITHUB_STEP_SUMMARY:-} ]] || printf '%s\n\n' "$1" >>"$GITHUB_STEP_SUMMARY"; }

# An address without what may be secret in it: the user, and what follows the path.
shown() {
    [[ $1 == *://* ]] || { printf '%s' "$1"; return; }
    local rest=${1#*://}
    local authority=${rest%%[/?#]*}
    # A password that was not encoded may have any sign in it.
    [[ $rest != *@* || $authority == *@* ]] || { printf '%s://...' "${1%%://*}"; return; }
    rest=${rest%%[?#]*}
    printf '%s://%s' "${1%%://*}" "${authority##*@}${rest:${#authority}}"
}

as_root() { if ((EUID == 0)); then "$@"; else sudo "$@"; fi; }

# --- pgdyno --------------------------------------------------------------------------------------------------------

# Fetches an address into a file. curl reads it on its standard input: everybody on the machine can read arguments. What curl says may
# quote the address, so that only its exit code is shown.
fetch() {
    [[ $1 != *[[:cntrl:]]* ]] || fail "the address of the package has a line break or another control character"
    local address=${1//\\/\\\\} code=0
    curl -fsL --globoff --retry 3 --proto '=https' -o "$2" --config - <<<"url = \"${address//\"/\\\"}\"" 2>/dev/null || code=$?
    ((code == 0)) || fail "cannot fetch $package: curl ended with exit code $code (curl(1) has a list of them)"
}

install_pgdyno() {
    local file package ending=
    [[ -n ${PGDYNO_PACKAGE:-} ]] || return 0
    file=$PGDYNO_PACKAGE
    package=$(shown "$PGDYNO_PACKAGE")
    if [[ $file == https://* ]]; then
        [[ -n ${PGDYNO_SHA256:-} ]] || fail "PGDYNO_SHA256 must hold the hash of what $package is to be"
        # Only the ending of the path says what it is: what follows it may be a token.
        case ${PGDYNO_PACKAGE%%[?#]*} in
            *.deb) ending=.deb ;;
            *.tar.gz | *.tgz) ending=.tar.gz ;;
        esac
        file=$place/package$ending
        fetch "$PGDYNO_PACKAGE" "$file"
    fi
    # What runs from here on does not need it.
    unset PGDYNO_PACKAGE
    [[ -f $file ]] || fail "there is no package \`$package\` (PGDYNO_PACKAGE)"
    if [[ -n ${PGDYNO_SHA256:-} ]]; then
        sha256sum --check --status <<<"$PGDYNO_SHA256  $file" || fail "$package is not what PGDYNO_SHA256 says"
    fi
    case $file in
        *.deb) as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -q "$(realpath "$file")" >&2 ||
            fail "cannot install $package" ;;
        *.tar.gz | *.tgz)
            tar -xzf "$file" -C "$place" || fail "cannot unpack $package"
            file=$(find "$place" -name pgdyno -type f -perm -u+x -print -quit)
            [[ -n $file ]] || fail "there is no program pgdyno in $package"
            PATH=${file%/*}:$PATH ;;
        *) install -D -m 755 "$file" "$place/bin/pgdyno" && PATH=$place/bin:$PATH ;;
    esac
}

# Clones PGDYNO_SOURCE. git has its address without the user, whom a file names that nobody else can read.
clone_source() {
    local address=$PGDYNO_SOURCE user rest
    local -a git=(git)
    [[ $address != *://*\?* ]] ||
        fail "PGDYNO_SOURCE has a query, which git would show; name the user as https://USER:TOKEN@..., with %3F for the sign ?"
    if [[ $address =~ ^(https?)://([^/?#]*)@(.*)$ ]]; then
        user=${BASH_REMATCH[2]} rest=${BASH_REMATCH[3]}
        address=${BASH_REMATCH[1]}://$rest
        [[ $user == *:* ]] || user=$user:
        (umask 077 && printf '%s\n' "${address%%://*}://$user@${rest%%/*}" >"$place/credentials")
        git+=(-c "credential.helper=" -c "credential.helper=store --file=$place/credentials")
    fi
    # Behind the host an @ may end a password that was not encoded.
    [[ $address != http*://*@* ]] ||
        fail "PGDYNO_SOURCE: encode the signs / # ? of the password (%2F, %23, %3F), and @ of a path (%40)"
    local code=0
    GIT_TERMINAL_PROMPT=0 "${git[@]}" clone -q --no-checkout "$address" "$place/source" || code=$?
    rm -f "$place/credentials"
    # `build` only looks whether there is one.
    PGDYNO_SOURCE=$place/source
    return $code
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
    source=$(shown "$PGDYNO_SOURCE")
    clone_source || fail "cannot clone \`$source\` (PGDYNO_SOURCE)"
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
