# Builds the program for one architecture, and refuses one that would not start elsewhere, names paths of this machine, or says
# nothing of its libraries. Read by `package`.

readonly glibc=2.17

# Paths of this machine are in no program: those who report an error need not know them, and the same sources give the same bytes.
# The last one that fits is taken.
remap() {
    local sysroot commit
    sysroot=$(rustc --print sysroot)
    commit=$(rustc -vV | sed -n 's/^commit-hash: //p')
    printf '%s\n' "$PWD=/pgdyno" "$target=/target" "${CARGO_HOME:-$HOME/.cargo}=/cargo" \
        "$sysroot/lib/rustlib/src/rust=/rustc/$commit"
}

# Leaves the program's path in `built`.
build() {
    local triple=$1-unknown-linux-gnu flags= cflags=-g0 pair
    install_standard_library "$triple"
    while read -r pair; do
        flags+=${flags:+$'\x1f'}--remap-path-prefix=$pair
        cflags+=" -ffile-prefix-map=$pair"
    done < <(remap)
    say "building for $1"
    CARGO_ENCODED_RUSTFLAGS=$flags CFLAGS=$cflags \
        CARGO_ZIGBUILD_CACHE_DIR=$tools/cache ZIG_GLOBAL_CACHE_DIR=$tools/cache/zig ZIG_LOCAL_CACHE_DIR=$tools/cache/zig \
        cargo-auditable auditable zigbuild --locked --profile dist --features nats,parquet -p pgdyno --target "$triple.$glibc"
    built=$target/$triple/dist/pgdyno
}

newest_glibc() {
    readelf --version-info --wide "$1" | grep -o 'GLIBC_[0-9.]*' | sed 's/GLIBC_//' | sort -uV | tail -n 1
}

# Libraries that the packages say they need.
readonly libraries=' libc.so.6 libm.so.6 libpthread.so.0 libdl.so.2 librt.so.1 libutil.so.1 ld-linux-x86-64.so.2 ld-linux-aarch64.so.1 '

inspect() {
    local needed library pair
    needed=$(newest_glibc "$1")
    [[ $(printf '%s\n' "$needed" $glibc | sort -V | tail -n 1) == "$glibc" ]] ||
        fail "\`$1\` needs glibc $needed; at most $glibc is allowed"
    while read -r library; do
        [[ $libraries == *" $library "* ]] || fail "\`$1\` needs \`$library\`, which is not of glibc; name its package in packaging/nfpm.yaml"
    done < <(readelf --dynamic --wide "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
    while read -r pair; do
        if grep -qF -e "${pair%=*}/" "$1"; then
            fail "\`$1\` contains a path of this machine: ${pair%=*}"
        fi
    done < <(remap)
    rust-audit-info "$1" | grep -q '"name":"tokio"' || fail "\`$1\` has no list of its libraries"
}

# Says its version, where this machine can run it.
try() {
    local runner='' said
    if [[ $2 != "$(uname -m)" ]]; then
        runner=qemu-$2-static
        have "$runner" || { say "no $runner: the program for $2 was not started"; return 0; }
        # Emulators look for the C library of the other architecture here.
        [[ -d /usr/$2-linux-gnu ]] || { say "no libc6-arm64-cross: the program for $2 was not started"; return 0; }
        runner="$runner -L /usr/$2-linux-gnu"
    fi
    said=$($runner "$1" --version) || fail "\`$1\` for $2 does not start"
    say "$said for $2"
}
