# What is in a package, as a tree that can be copied into a prefix, and the packages that are made of it. Read by `package`.

# Everything has the time of the last commit, so that the same sources give the same bytes.
stage() {
    local stage=$1 program=$2 texts=$3 lists=$4
    rm -rf "$stage"
    mkdir -p "$stage"/{bin,lib/pgdyno/bin,share/man/man1,share/bash-completion/completions,share/zsh/site-functions} \
        "$stage/share/fish/vendor_completions.d"
    install -m 755 "$program" "$stage/bin/pgdyno"
    # The name `pgbench` in PATH belongs to PostgreSQL's own packages; this directory is for those who want ours first.
    ln -s ../../../bin/pgdyno "$stage/lib/pgdyno/bin/pgbench"
    install -m 644 "$texts/man/"*.1.gz "$stage/share/man/man1"
    install -m 644 "$texts/completions/bash" "$stage/share/bash-completion/completions/pgdyno"
    install -m 644 "$texts/completions/zsh" "$stage/share/zsh/site-functions/_pgdyno"
    install -m 644 "$texts/completions/fish" "$stage/share/fish/vendor_completions.d/pgdyno.fish"
    write_documents "$stage/share/doc/pgdyno" "$lists"
    find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

# An archive that is unpacked anywhere, or into /usr/local. Of directories it has only our own: tar, as root, gives those that are there
# the owner and the mode of the archive's.
make_tarball() {
    local stage=$1 name=$2
    (cd "$stage" && find . \( ! -type d -o -path '*/pgdyno' -o -path '*/pgdyno/*' \) ! -path ./share/doc/pgdyno/changelog.Debian.gz \
        ! -path ./share/doc/pgdyno/copyright -print0 | sort -z) |
        tar -C "$stage" --null --no-recursion --files-from=- --transform "flags=rSh;s,^\.,$name," --mtime="@$SOURCE_DATE_EPOCH" \
            --owner=0 --group=0 --numeric-owner --format=gnu -cf - | gzip -9n >"dist/$name.tar.gz"
}

# A .deb and an .rpm of the same tree.
make_packages() {
    local stage=$1 architecture=$2 packager goarch=amd64
    local config=${stage%/*}/nfpm.yaml
    install -m 755 packaging/postrm "${stage%/*}/postrm"
    { rpm_man_pages "$stage"; readable_documents "$stage"; } >"$config.documents"
    sed "/# DOCUMENTS/r $config.documents" packaging/nfpm.yaml >"$config"
    grep -q 'dst: /usr/share/man/man1/pgdyno.1.gz' "$config" || fail "packaging/nfpm.yaml has no place for documents"
    [[ $architecture == aarch64 ]] && goarch=arm64
    for packager in deb rpm; do
        (cd "$stage" && PACKAGE_ARCHITECTURE=$goarch PACKAGE_VERSION=$version PACKAGE_MAINTAINER=$maintainer \
            nfpm package --config "$config" --packager $packager --target "$root/dist/" >/dev/null)
    done
}

# One entry each: nfpm takes no pattern for documents.
rpm_man_pages() {
    local page
    for page in "$1"/share/man/man1/*.1.gz; do
        printf '  - src: share/man/man1/%s\n    dst: /usr/share/man/man1/%s\n    type: doc\n    packager: rpm\n' "${page##*/}" "${page##*/}"
    done
}

# README and what it links to, with the directories, which an .rpm removes only if it lists them.
readable_documents() {
    local own=/usr/share/doc/pgdyno path
    find "$1/share/doc/pgdyno" -mindepth 1 -type d -printf '%P\n' | sort | while read -r path; do
        printf '  - dst: %s/%s\n    type: dir\n' "$own" "$path"
    done
    find "$1/share/doc/pgdyno" -type f ! -name '*.gz' ! -name 'LICENSE-*' ! -name copyright -printf '%P\n' | sort |
        while read -r path; do
            printf '  - src: share/doc/pgdyno/%s\n    dst: %s/%s\n    packager: deb\n' "$path" "$own" "$path"
            printf '  - src: share/doc/pgdyno/%s\n    dst: %s/%s\n    type: doc\n    packager: rpm\n' "$path" "$own" "$path"
        done
}
