/*
 * Imitates NVIDIA/pyxis v0.24.0 for the laboratory: its srun options, squashfs images only.
 *
 * It loop-mounts a .sqsh file (or unpacks it without loop devices), adds an overlay, binds the mounts, pivots into it and sets
 * the image's environment. It has no images by URI, hooks or remapping of uids. Every task has its own container, which ends
 * with the task's mount namespace.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <slurm/slurm_errno.h>
#include <slurm/spank.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

SPANK_PLUGIN(pyxis, 1)

#define MOST_MOUNTS 64
#define BASE "/run/pyxis"
#define LOWER BASE "/image"
#define ROOT BASE "/root"

static char *image, *workdir, *name, *environment_kept;
static char *mounts[MOST_MOUNTS];
static int mount_count, writable, with_home;

static int keep(char **where, const char *value) {
  free(*where);
  *where = strdup(value);
  return *where ? 0 : -1;
}

static int set_image(int val, const char *arg, int remote) { return keep(&image, arg); }
static int set_workdir(int val, const char *arg, int remote) { return keep(&workdir, arg); }
static int set_name(int val, const char *arg, int remote) { return keep(&name, arg); }
static int set_env(int val, const char *arg, int remote) { return keep(&environment_kept, arg); }
static int set_flag(int val, const char *arg, int remote) {
  if (val == 'w') writable = 1;
  if (val == 'r') writable = 0;
  if (val == 'h') with_home = 1;
  if (val == 'H') with_home = 0;
  return 0;
}

static int set_mounts(int val, const char *arg, int remote) {
  char *copy = strdup(arg), *rest = copy, *one;
  mount_count = 0;
  while (copy && (one = strsep(&rest, ","))) {
    if (*one != '/') {
      slurm_error("pyxis: could not parse mount '%s': want SRC:DST[:FLAGS], absolute paths", one);
      return -1;
    }
    if (mount_count == MOST_MOUNTS) {
      slurm_error("pyxis: more than %d mounts", MOST_MOUNTS);
      return -1;
    }
    mounts[mount_count++] = one;
  }
  return 0;
}

static struct spank_option options[] = {
    {"container-image", "FILE", "[simulated pyxis] the squashfs file of the container", 1, 0, set_image},
    {"container-mounts", "SRC:DST[:FLAGS][,...]", "[simulated pyxis] bind mounts into the container", 1, 0, set_mounts},
    {"container-workdir", "PATH", "[simulated pyxis] working directory inside the container", 1, 0, set_workdir},
    {"container-name", "NAME", "[simulated pyxis] accepted; containers are not kept", 1, 0, set_name},
    {"container-env", "NAME[,...]", "[simulated pyxis] variables that the image must not override", 1, 0, set_env},
    {"container-writable", NULL, "[simulated pyxis] a writable layer over the image", 0, 'w', set_flag},
    {"container-readonly", NULL, "[simulated pyxis] no writable layer (the default)", 0, 'r', set_flag},
    {"container-mount-home", NULL, "[simulated pyxis] bind the user's home", 0, 'h', set_flag},
    {"no-container-mount-home", NULL, "[simulated pyxis] leave the user's home out (the default)", 0, 'H', set_flag},
    {"no-container-entrypoint", NULL, "[simulated pyxis] accepted; entrypoints never run", 0, 'e', set_flag},
    {"no-container-remap-root", NULL, "[simulated pyxis] accepted; uids stay as they are", 0, 'u', set_flag},
    SPANK_OPTIONS_TABLE_END};

static int fail(const char *format, ...) {
  char text[PATH_MAX + 256];
  int number = errno;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  slurm_error("pyxis: %s: %s", text, number ? strerror(number) : "refused");
  return -1;
}

int slurm_spank_init(spank_t sp, int ac, char **av) {
  spank_context_t context = spank_context();
  for (int i = 0; options[i].name; i++)
    if ((context == S_CTX_ALLOCATOR || context == S_CTX_LOCAL || context == S_CTX_REMOTE) &&
        spank_option_register(sp, &options[i]) != ESPANK_SUCCESS)
      return fail("cannot register --%s", options[i].name);
  return 0;
}

static int run(char *const argv[]) {
  int status = -1;
  pid_t child = fork();
  if (child == 0) {
    execvp(argv[0], argv);
    _exit(127);
  }
  if (child < 0 || waitpid(child, &status, 0) < 0) return -1;
  errno = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int make_parents(const char *path, int folder) {
  char copy[PATH_MAX];
  snprintf(copy, sizeof copy, "%s", path);
  for (char *slash = copy + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    if (mkdir(copy, 0755) && errno != EEXIST) return -1;
    *slash = '/';
  }
  if (folder) return mkdir(copy, 0755) && errno != EEXIST ? -1 : 0;
  int descriptor = open(copy, O_CREAT | O_CLOEXEC | O_WRONLY, 0644);
  if (descriptor < 0) return errno == EISDIR || errno == ENXIO || errno == EACCES ? 0 : -1;
  return close(descriptor);
}

/* source below the old root, target below the new one. */
static int bind(const char *source, const char *target, const char *flags) {
  char path[PATH_MAX];
  struct stat found;
  if (stat(source, &found)) return fail("mount source %s", source);
  snprintf(path, sizeof path, ROOT "%s", target);
  struct stat there;
  if (stat(path, &there) && make_parents(path, S_ISDIR(found.st_mode))) return fail("mount target %s", target);
  if (mount(source, path, NULL, MS_BIND | MS_REC, NULL)) return fail("mount %s on %s", source, target);
  if (flags && strstr(flags, "ro") && mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL))
    return fail("mount %s read-only", target);
  return 0;
}

/* The image's /etc/environment, where `enroot import` keeps what the image sets; names in --container-env stay as the job has them. */
static int image_environment(spank_t sp) {
  char line[8192], kept[4096], wanted[sizeof line + 2];
  FILE *file = fopen(ROOT "/etc/environment", "re");
  if (!file) return 0;
  snprintf(kept, sizeof kept, ",%s,", environment_kept ? environment_kept : "");
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    char *value = strchr(line, '=');
    if (!value || *line == '#') continue;
    *value++ = 0;
    snprintf(wanted, sizeof wanted, ",%s,", line);
    if (!strstr(kept, wanted)) spank_setenv(sp, line, value, 1);
  }
  return fclose(file);
}

static const char *folder(void) { return workdir ? workdir : "/"; }

/* `enroot import` keeps the image's working directory as a line of /etc/rc: cd "FOLDER" && ... */
static void image_workdir(void) {
  char line[PATH_MAX + 64];
  FILE *file = fopen("/etc/rc", "re");
  while (file && fgets(line, sizeof line, file)) {
    char *end = strncmp(line, "cd \"", 4) ? NULL : strchr(line + 4, '"');
    if (!end) continue;
    *end = 0;
    keep(&workdir, line + 4);
  }
  if (file) fclose(file);
}

/* Before the task gives up root. What is returned here reaches srun's exit status, which it does not from slurm_spank_init_post_opt. */
int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av) {
  char home[PATH_MAX] = "";
  if (!image) return 0;
  errno = 0;
  if (access(image, R_OK)) return fail("image %s", image);
  /* The folders made here are for the task's user, whose umask the step has. */
  mode_t kept = umask(022);
  /* Private at once: nothing of what follows is seen outside the task, and all of it ends with the task. */
  if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return fail("mount namespace");
  if ((mkdir(BASE, 0755) && errno != EEXIST) || mount("tmpfs", BASE, "tmpfs", 0, "mode=0755")) return fail(BASE);
  if (mkdir(LOWER, 0755) || mkdir(ROOT, 0755) || mkdir(BASE "/upper", 0755) || mkdir(BASE "/work", 0755)) return fail(BASE);
  if (run((char *[]){"mount", "-t", "squashfs", "-o", "loop,ro", image, LOWER, NULL}) &&
      run((char *[]){"unsquashfs", "-n", "-f", "-d", LOWER, image, NULL}))
    return fail("image %s is no squashfs file that this node can mount or unpack", image);
  if (mount("overlay", ROOT, "overlay", 0, "lowerdir=" LOWER ",upperdir=" BASE "/upper,workdir=" BASE "/work"))
    return fail("overlay over %s", image);
  if (image_environment(sp)) return fail("environment of %s", image);

  static const char *const system_mounts[] = {"/proc", "/sys", "/dev", "/etc/hosts", "/etc/resolv.conf", "/etc/passwd", "/etc/group", "/tmp"};
  for (size_t i = 0; i < sizeof system_mounts / sizeof *system_mounts; i++)
    if (access(system_mounts[i], F_OK) == 0 && bind(system_mounts[i], system_mounts[i], NULL)) return -1;
  if (with_home && spank_getenv(sp, "HOME", home, sizeof home) == ESPANK_SUCCESS && *home == '/' && home[1] &&
      access(home, F_OK) == 0 && bind(home, home, NULL))
    return -1;
  for (int i = 0; i < mount_count; i++) {
    char *rest = strdup(mounts[i]), *source = strsep(&rest, ":"), *target = strsep(&rest, ":");
    if (bind(source, target && *target ? target : source, rest)) return -1;
  }
  /* Slurm's PMI and the step's sockets live in the spool folder. */
  if (access("/var/spool/slurmd", F_OK) == 0 && bind("/var/spool/slurmd", "/var/spool/slurmd", NULL)) return -1;
  if (!writable && mount(NULL, ROOT, NULL, MS_REMOUNT | MS_RDONLY, NULL)) return fail("read-only root");

  if (chdir(ROOT) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH)) return fail("pivot_root");
  umask(kept);
  if (!workdir) image_workdir();
  struct stat found;
  if (stat(folder(), &found) || !S_ISDIR(found.st_mode)) return fail("--container-workdir=%s", folder());
  return 0;
}

/* slurmstepd changes into the job's folder between the two hooks, so the container's comes last. */
int slurm_spank_task_init(spank_t sp, int ac, char **av) {
  if (image && chdir(folder())) return fail("--container-workdir=%s", folder());
  return 0;
}
