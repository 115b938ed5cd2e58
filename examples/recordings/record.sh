#!/bin/sh
# Makes the recordings of this folder anew: what two applications ask of a drive through a file system.
#
#   record.sh [PHASELINK]     the program, if it is not on the path
#
# The drive is served with timing off: it answers at once, so that pauses between requests are those of the application,
# the file system and FUSE, and not of a modelled drive. Packages of Debian: libnbd-bin, qemu-utils, e2fsprogs, fuse2fs, fuse3, git.
set -e
here=$(cd "$(dirname "$0")" && pwd)
phaselink=${1:-phaselink}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export here work

# $work/session ACTION: the drive as a file, and on it a file system in $folder.
cat > "$work/session" <<'SESSION'
set -e
mkdir -p "$work/drive" "$work/files"
folder=$work/files
touch "$work/drive/file"
# The file system writes parts of blocks, which qemu-nbd makes whole ones.
qemu-nbd -f raw -k "$work/whole" "$uri" &
until [ -S "$work/whole" ]; do sleep 0.05; done
nbdfuse "$work/drive/file" "nbd+unix:///?socket=$work/whole" &
fuse=$!
until [ "$(stat -c %s "$work/drive/file")" -gt 0 ]; do sleep 0.05; done
if [ "$1" = prepare ]; then mke2fs -q -t ext2 -b 4096 "$work/drive/file"; fi
fuse2fs -o fakeroot "$work/drive/file" "$folder"
case $1-$2 in
prepare-sqlite) python3 "$here/../crash/sqlite.py" make "$folder" FULL ;;
run-sqlite) python3 "$here/../crash/sqlite.py" run "$folder" FULL > "$work/printed" ;;
prepare-git) git init -q "$folder/tree" ;;
run-git)
    cp -r "$here/../../crates/cli/docs" "$folder/tree"
    git -C "$folder/tree" -c core.fsync=all -c gc.auto=0 add .
    git -C "$folder/tree" -c core.fsync=all -c gc.auto=0 -c user.name=a -c user.email=a@example.org commit -qm docs
    ;;
esac
fusermount3 -u "$folder"
while pgrep -f "^fuse2fs .* $folder" > /dev/null; do sleep 0.05; done
fusermount3 -u "$work/drive/file"
wait $fuse
rm -f "$work/whole"
SESSION

for application in sqlite git; do
    serve() {
        "$phaselink" serve dc-express --set media.capacity_mib=64 --timing off --store "$work/$application" \
            --nbd "nbd+unix:///?socket=$work/socket" "$@" > "$work/log" 2>&1 || { cat "$work/log"; exit 1; }
    }
    serve --run "sh $work/session prepare $application"
    serve --record "$work/$application.iolog" --run "sh $work/session run $application"
    gzip -9nc "$work/$application.iolog" > "$here/$application.iolog.gz"
done
