#!/bin/sh
# PID 1 of the guest. It sees the host's / read-only, so the host's tools are there.
# RUN (the run's directory) and MODULES (the unpacked packages) come from the kernel's command line.
export PATH=/tmp/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t hostfs none /mnt -o "$RUN"
mount -t hostfs none /media -o "$MODULES"
mount -t tmpfs tmpfs /tmp
mount -t tmpfs tmpfs /run
mkdir /tmp/bin
cat >/tmp/bin/modprobe <<'M'
#!/bin/sh
LD_LIBRARY_PATH=/media/lib/x86_64-linux-gnu:/media/usr/lib/x86_64-linux-gnu exec /media/bin/modprobe -d /media "$@"
M
chmod +x /tmp/bin/modprobe
echo /tmp/bin/modprobe >/proc/sys/kernel/modprobe
cd /mnt || exit 1
python3 guest.py >log 2>&1 </dev/null
echo $? >status
sync
echo o >/proc/sysrq-trigger
sleep 60
