#!/bin/sh
# A Debian guest in an emulated machine, for drives that are served over vfio-user, vhost-user and NVMe/TCP.
#
#   rig.sh prepare                        fetch and unpack what a guest needs, unless it is there
#   rig.sh boot DIRECTORY BOOTS DEVICE... run the guest with these arguments of QEMU for its drive; what it says is
#                                         written to DIRECTORY/said, its console to DIRECTORY/console
#   rig.sh network DIRECTORY WORD...      run the guest of `network-init` with these words of its kernel's command line,
#                                         in a network in which 10.0.2.2 is this machine's loopback
#
# QEMU understands vfio-user since 10.1, which distributions in use are older than. So QEMU, its firmware, a kernel and
# a few tools are fetched from the mirror of this machine's own apt, of the release named below, and unpacked into a
# folder. Nothing is installed, no script of a package is run, and no privilege is needed: QEMU is started by the
# dynamic linker of that folder. Without the right machine, or without the mirror, `prepare` says why and fails.
set -eu

RELEASE=trixie
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/phaselink/guest-$RELEASE-3
tree=$cache/tree
libraries=usr/lib/x86_64-linux-gnu
memory=256M
# What takes a fifth of a boot in an emulated machine, and guards nothing in it. The guest keeps time by the HPET: its
# TSC is that of whichever of the host's processors it is on, and where these differ a guest that trusts it leaps.
spare='mitigations=off lsm= nokaslr cryptomgr.notests rcupdate.rcu_expedited=1 audit=0 no_timer_check tsc=unstable'
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

progress() { echo "guest: $*" >&2; }

refuse() {
    progress "$*"
    exit 1
}

# The mirror that this machine gets its own release from.
mirror() {
    . /etc/os-release
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(CREATED_BY)' |
        awk -v release="$VERSION_CODENAME" '$2 == release && $3 == "main" && $4 == "Packages" { print $1; exit }'
}

check_machine() {
    [ "$(uname -sm)" = 'Linux x86_64' ] || refuse 'the guest needs Linux on x86-64'
    for tool in apt-get dpkg-deb flock; do
        command -v $tool > /dev/null || refuse "the guest needs $tool"
    done
    [ "$(. /etc/os-release && echo "$ID")" = debian ] || refuse 'the guest is fetched from the mirror of a Debian system'
    [ -r $keyring ] || refuse "the guest needs $keyring"
    [ -n "$(mirror)" ] || refuse 'apt knows no mirror of this Debian release'
}

# apt with lists, archives and a package database of its own, in which nothing is installed.
apt() {
    apt-get -qq -o Dir::State="$cache/apt" -o Dir::State::status="$cache/apt/status" -o Dir::Cache="$cache/apt" \
        -o Dir::Etc::SourceList="$cache/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null \
        -o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
        -o APT::Sandbox::User="$(id -un)" -o APT::Update::Post-Invoke-Success= -o DPkg::Post-Invoke= \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::Retries=3 -o Acquire::http::Timeout=60 "$@" < /dev/null > "$cache/apt.log" 2>&1 ||
        { tail -n 5 "$cache/apt.log" >&2; refuse "apt-get $* has failed"; }
}

fetch_lists() {
    mkdir -p "$cache/apt/lists/partial" "$cache/apt/archives/partial"
    : > "$cache/apt/status"
    for suite in $RELEASE $RELEASE-backports; do
        echo "deb [arch=amd64 signed-by=$keyring] $(mirror) $suite main"
    done > "$cache/apt/sources.list"
    progress "fetching the package lists of $RELEASE"
    apt update
}

download() {
    fetch_lists
    progress 'fetching QEMU, a kernel and tools (90 MB)'
    apt install --yes --download-only --no-install-recommends --target-release $RELEASE-backports qemu-system-x86
    # tiny-initramfs stands for the larger package that a kernel would bring; neither is used.
    apt install --yes --download-only --no-install-recommends linux-image-cloud-amd64 tiny-initramfs e2fsprogs busybox-static nvme-cli
}

# The kernel has NVMe and ext4 built in; of its modules, those of virtio's devices and of NVMe over Fabrics are needed.
unpack() {
    progress 'unpacking'
    rm -rf "$tree.partial"
    mkdir "$tree.partial"
    for package in "$cache"/apt/archives/*.deb; do
        case $package in
        */linux-image-[0-9]*)
            dpkg-deb --fsys-tarfile "$package" |
                tar -x -C "$tree.partial" --wildcards './boot/vmlinuz-*' '*/drivers/block/virtio_blk.ko.xz' \
                    '*/net/core/failover.ko.xz' '*/drivers/net/net_failover.ko.xz' '*/drivers/net/virtio_net.ko.xz' \
                    '*/nvme/host/nvme-fabrics.ko.xz' '*/nvme/host/nvme-tcp.ko.xz'
            ;;
        *) dpkg-deb -x "$package" "$tree.partial" ;;
        esac
    done
    rm -rf "$tree.partial/usr/share/doc" "$tree.partial/usr/share/locale"
    mv "$tree.partial" "$tree"
    rm -rf "$cache/apt"
}

# Resumes where an earlier try was interrupted; a second one at the same time waits.
prepare() {
    [ ! -d "$tree" ] || return 0
    check_machine
    mkdir -p "$cache"
    exec 9> "$cache/lock"
    flock 9
    [ ! -d "$tree" ] || return 0
    download
    unpack
}

# make_initrd DIRECTORY INIT MODULES TOOLS LIBRARIES: an archive in memory with an init script beside this file, busybox,
# modules of the kernel, and tools with their libraries.
make_initrd() {
    root=$1/root
    rm -rf "$root"
    mkdir -p "$root/bin" "$root/sbin" "$root/lib" "$root/lib64" "$root/etc" "$root/$libraries"
    mkdir "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/mnt"
    cp "$here/$2" "$root/init"
    chmod 755 "$root/init"
    cp "$tree/usr/bin/busybox" "$root/bin"
    ln -s busybox "$root/bin/sh"
    for tool in $4; do cp "$tree/usr/sbin/$tool" "$root/sbin"; done
    cp "$tree/etc/mke2fs.conf" "$root/etc"
    cp "$tree/usr/lib64/ld-linux-x86-64.so.2" "$root/lib64"
    for module in $3; do
        find "$tree/usr/lib/modules" -name "$module.ko.xz" -exec "$tree/usr/bin/busybox" unxz -c {} + > "$root/lib/$module.ko"
    done
    for library in libc $5; do
        cp -L "$tree/$libraries/$library".so.? "$root/$libraries"
    done
    (cd "$root" && find . | "$tree/usr/bin/busybox" cpio -o -H newc 2> /dev/null) > "$1/initrd"
    rm -rf "$root"
}

# The memory is a memfd, so that a server can map it. A reset of the machine starts it again.
machine() {
    directory=$1
    shift
    exec "$tree/usr/lib64/ld-linux-x86-64.so.2" --library-path "$tree/$libraries" "$tree/usr/bin/qemu-system-x86_64" \
        -nodefaults -no-user-config -display none -L "$tree/usr/share/qemu" -L "$tree/usr/share/seabios" \
        -machine q35,memory-backend=memory -accel tcg -cpu max -smp 2 -m $memory \
        -object memory-backend-memfd,id=memory,size=$memory,share=on \
        -kernel "$tree"/boot/vmlinuz-* -serial "file:$directory/console" -serial "file:$directory/said" "$@"
}

boot() {
    directory=$1 boots=$2
    shift 2
    make_initrd "$directory" init virtio_blk 'mke2fs e2fsck' 'libext2fs libcom_err libe2p libblkid libuuid'
    machine "$directory" -initrd "$directory/initrd" -append "console=ttyS0 quiet $spare boots=$boots" "$@"
}

network() {
    directory=$1
    shift
    make_initrd "$directory" network-init 'failover net_failover virtio_net nvme-fabrics nvme-tcp' nvme \
        'libnvme libnvme-mi libjson-c libcrypto libkeyutils libz libzstd'
    machine "$directory" -initrd "$directory/initrd" -append "console=ttyS0 quiet $spare $*" \
        -netdev user,id=net -device virtio-net-pci,netdev=net,romfile=
}

# suites.sh takes these functions over.
[ "${0##*/}" = rig.sh ] || return 0

case ${1:-} in
prepare) prepare ;;
boot) shift && boot "$@" ;;
network) shift && network "$@" ;;
*) sed -n '3,8s/^# *//p' "$0" >&2 && exit 2 ;;
esac
