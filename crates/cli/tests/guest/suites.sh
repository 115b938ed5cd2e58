#!/bin/sh
# Other people's tools against served NVMe drives, in a guest that has its own system on one of them.
#
#   suites.sh PROGRAM     fetch what the guest needs, unless it is there; make a system of it on a drive that PROGRAM,
#                         the built phaselink, serves; start the guest from there; print what each suite has come to
#
# The guest's user space is of packages of the release that rig.sh names, fetched and unpacked as that does it. The system
# is on the first half of the first drive, and file systems are tried on the second. Three more drives are beside it: one
# with zones, one with placement handles, and one whose namespaces come and go. The server of the drive with zones is
# killed in the middle of writes and started anew, and the guest looks at what is left. It takes some minutes.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/rig.sh"
PACKAGES='nvme-cli smartmontools util-linux e2fsprogs xfsprogs btrfs-progs fio kmod busybox-static zbd-utils zonefs-tools
    python3'
SECTORS_OF_MIB=2048
ROOT_MIB=900
SPARE_MIB=1024
DRIVE_MIB=2048
SECONDS_MAX=1800

prepare
rig_tree=$tree
cache=${XDG_CACHE_HOME:-$HOME/.cache}/phaselink/suites-$RELEASE-2
system=$cache/system

# Merged folders as base-files would make them, and modules of file systems: the kernel has the rest built in.
make_system() {
    rm -rf "$system.partial"
    mkdir -p "$system.partial/usr/bin" "$system.partial/usr/sbin" "$system.partial/usr/lib" "$system.partial/usr/lib64"
    for folder in bin sbin lib lib64; do ln -s usr/$folder "$system.partial/$folder"; done
    for package in "$cache"/apt/archives/*.deb; do
        case $package in
        */linux-image-[0-9]*)
            dpkg-deb --fsys-tarfile "$package" | tar -x -C "$system.partial" --wildcards '*/modules.builtin*' \
                '*/modules.order' '*/kernel/fs/xfs/*' '*/kernel/fs/btrfs/*' '*/kernel/fs/zonefs/*' '*/kernel/lib/*' \
                '*/kernel/crypto/*'
            ;;
        *) dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$system.partial" ;;
        esac
    done
    rm -rf "$system.partial/usr/share/doc" "$system.partial/usr/share/man" "$system.partial/usr/share/locale"
    mkdir -p "$system.partial/proc" "$system.partial/sys" "$system.partial/dev" "$system.partial/tmp" "$system.partial/mnt" \
        "$system.partial/run" "$system.partial/etc"
    ln -sf busybox "$system.partial/usr/bin/sh"
    # nvme-cli's own suite is in its source package.
    mkdir "$system.partial/nvme-cli"
    tar -x -C "$system.partial/nvme-cli" --strip-components=1 --wildcards -f "$cache"/apt/nvme-cli_*.orig.tar.* '*/tests/*'
    mv "$system.partial" "$system"
    rm -rf "$cache/apt"
}

prepare_system() {
    [ ! -d "$system" ] || return 0
    mkdir -p "$cache"
    exec 8> "$cache/lock"
    flock 8
    [ ! -d "$system" ] || return 0
    fetch_lists
    kernel=$(basename "$rig_tree"/boot/vmlinuz-*)
    progress 'fetching the packages of the suites (120 MB)'
    echo "deb-src [signed-by=$keyring] $(mirror) $RELEASE main" >> "$cache/apt/sources.list"
    apt update
    apt install --yes --download-only --no-install-recommends $PACKAGES "linux-image-${kernel#vmlinuz-}" tiny-initramfs
    (cd "$cache/apt" && apt source --download-only nvme-cli)
    progress 'unpacking'
    make_system
}

little_endian() {
    printf '\\%03o\\%03o\\%03o\\%03o' $(($1 % 256)) $(($1 / 256 % 256)) $(($1 / 65536 % 256)) $(($1 / 16777216))
}

# An entry of a partition table: type 83h, first sector, sectors.
partition() {
    printf '\000\000\000\000\203\000\000\000'
    printf "$(little_endian $1)$(little_endian $2)"
}

make_image() {
    cp "$here/suites-init" "$system/suites"
    chmod 755 "$system/suites"
    rm -f "$1"
    truncate -s ${DRIVE_MIB}M "$1"
    mke2fs -q -F -t ext4 -d "$system" -E offset=1048576,root_owner=0:0 "$1" ${ROOT_MIB}M
    {
        partition $SECTORS_OF_MIB $((ROOT_MIB * SECTORS_OF_MIB))
        partition $(((ROOT_MIB + 1) * SECTORS_OF_MIB)) $((SPARE_MIB * SECTORS_OF_MIB))
    } | dd of="$1" bs=1 seek=446 conv=notrunc status=none
    # A signature of the table, by which the kernel finds its root whatever number the drive gets.
    printf 'root' | dd of="$1" bs=1 seek=440 conv=notrunc status=none
    printf '\125\252' | dd of="$1" bs=1 seek=510 conv=notrunc status=none
}

# What the guest has said of each suite, as a table.
table() {
    echo '| suite | version | passed | failed |'
    echo '|---|---|---|---|'
    tr -d '\r' < "$1" | sed -n 's/^suite: //p' | sed 's/^/| /; s/$/ |/'
    tr -d '\r' < "$1" | grep -E '^(failed|known|skipped): '
}

device() { printf '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"%s.sock"}}' "$1"; }

# machine DIRECTORY WORD: the guest, told by a word which part of its tests to go through.
if [ "${1:-}" = machine ]; then
    memory=768M
    machine "$2" -append "console=ttyS0 quiet root=PARTUUID=746f6f72-01 rw rootwait init=/suites suites=$3" \
        -device "$(device drive)" -device "$(device zoned)" -device "$(device placed)" -device "$(device managed)"
fi
[ $# = 1 ] || { sed -n '4,5s/^# *//p' "$0" >&2 && exit 2; }
program=$(realpath "$1")
for tool in mke2fs nbdcopy; do
    command -v $tool > /dev/null || refuse "making a system on a drive needs $tool (packages e2fsprogs and libnbd-bin)"
done
prepare_system
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
progress 'making the system'
make_image image
drive="serve nvme --set media.capacity_mib=$DRIVE_MIB --store bytes --timing off --lag-tolerance-us 1e9"
zoned='serve nvme --set zones.size_mib=16 --set zones.capacity_mib=12 --set zones.open_max=12 --set zones.active_max=14
    --store zones --timing off --lag-tolerance-us 1e9'
placed='serve tlc-gen4 --set media.capacity_mib=512 --set media.channels=4 --set media.banks_per_channel=1
    --set media.block_pages=12 --set translation.over_provisioning=0.2 --set translation.precondition=none
    --set placement.handles=4 --timing off --lag-tolerance-us 1e9'
managed='serve nvme --set media.capacity_mib=64 --set nvme.namespaces=8 --timing off --lag-tolerance-us 1e9'
"$program" $drive --nbd 'nbd+unix:///?socket=disk.sock' --run 'nbdcopy image "$uri"' > /dev/null
# Serves the four drives to the guest, which goes through the tests of this word.
guest() {
    : > console
    "$program" $drive --wait block --vfio-user drive.sock --run "exec '$program' $(one_line "$placed") --wait block --vfio-user placed.sock \
        --run \"exec '$program' $(one_line "$managed") --wait block --vfio-user managed.sock --run 'exec ./with_zones $1'\"" \
        > "served.$1" 2>&1 || { tail -n 20 "served.$1" console; exit 1; }
    cat console >> console.all
    tr -d '\r' < console | grep -q '^suites done' || { tail -n 20 console; exit 1; }
}

one_line() { echo $1; }

# The drive with zones has a server that can be killed, alone: the guest asks for it, and is ended then.
cat > with_zones << END
#!/bin/sh
set -u
'$program' $(one_line "$zoned") --wait block --vfio-user zoned.sock > served.zoned 2>&1 &
server=\$!
until [ -S zoned.sock ] || ! kill -0 \$server; do sleep 0.1; done
timeout -k 5 $SECONDS_MAX '$here/suites.sh' machine '$work' "\$1" &
machine=\$!
while kill -0 \$machine 2> /dev/null; do
    if tr -d '\r' < console 2> /dev/null | grep -q '^cut the power of the zones'; then
        kill -KILL \$server
        kill \$machine
        echo 'suites done' >> console
        break
    fi
    sleep 0.2
done
wait \$machine
kill \$server 2> /dev/null
wait
exit 0
END
chmod 755 with_zones
progress 'starting it'
guest all
for word in btrfs-cut zonefs-cut; do
    progress "starting it again, with the zones of a server that was killed: $word"
    guest $word
done
table console.all
! tr -d '\r' < console.all | grep -q '^failed: '
