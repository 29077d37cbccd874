# An image that conducts experiments: pgdyno with ssh and kubectl, by which it reaches its drivers.
#
#   ./package                                    makes the programs and their list, dist/SHA256SUMS
#   docker build -f deploy/kubernetes/coordinator.Dockerfile --build-arg USER_ID="$(id -u)" -t REGISTRY/pgdyno-coordinator:VERSION dist
#   docker run --rm -it -v "$PWD:/results" -v ~/.ssh:/home/pgdyno/.ssh:ro REGISTRY/pgdyno-coordinator:VERSION plan exp.toml
#
# The programs for both architectures are next to their list, so --upload puts the right one on each machine. Only the owner of ~/.ssh
# can read it, and only that of the directory can write results there: USER_ID is their number. Leave it out where neither is mounted
# from a machine, as in a pod. For root, whose number is 0, ~/.ssh is mounted to /root/.ssh.
FROM debian:13-slim
# Set by BuildKit; other builders build for their own machine.
ARG TARGETARCH
ARG USER_ID=65532
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates kubernetes-client openssh-client && \
    rm -rf /var/lib/apt/lists/*
COPY pgdyno-*-linux SHA256SUMS /opt/pgdyno/
RUN set -e; \
    case "${TARGETARCH:-$(dpkg --print-architecture)}" in amd64) a=x86_64 ;; arm64) a=aarch64 ;; *) exit 1 ;; esac; \
    ln -s /opt/pgdyno/pgdyno-*-$a-linux /usr/local/bin/pgdyno; \
    [ "$USER_ID" = 0 ] || useradd --non-unique --uid "$USER_ID" --user-group --create-home pgdyno; \
    install -d -o "$USER_ID" /results
USER $USER_ID
WORKDIR /results
ENTRYPOINT ["pgdyno"]
