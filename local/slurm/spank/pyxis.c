/*
 * Imitates NVIDIA/pyxis v0.24.0 for the laboratory: its srun options, squashfs images only. tests/slurm/containers.json has the
 * behaviour and messages of the genuine programs that it must show.
 *
 * It loop-mounts a .sqsh file (or unpacks it without loop devices), adds an overlay, binds the mounts, pivots into it and sets
 * the image's environment, as Enroot's mounts and hooks do where ParallelCluster installs them. It has no images by URI, kept
 * containers, hooks of users or user namespaces. Every task has its own container, which ends with the task's mount namespace.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
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
static int mount_count;
/* Pairs of contrary options, by their letter: whether the option or its contrary was given. */
static char given[128];
static const char *const CONTRARY[][2] = {{"container-writable", "container-readonly"},
                                          {"container-mount-home", "no-container-mount-home"},
                                          {"container-entrypoint", "no-container-entrypoint"},
                                          {"container-remap-root", "no-container-remap-root"}};

static int keep(char **where, const char *value) {
  free(*where);
  *where = strdup(value);
  return *where ? 0 : -1;
}

/* Slurm may give an option twice; only another value is an error. */
static int keep_once(char **where, const char *option, const char *value) {
  if (*where && strcmp(*where, value)) {
    slurm_error("pyxis: --%s specified multiple times", option);
    return -1;
  }
  return keep(where, value);
}

static int set_image(int val, const char *arg, int remote) { return keep_once(&image, "container-image", arg); }
static int set_workdir(int val, const char *arg, int remote) { return keep_once(&workdir, "container-workdir", arg); }
static int set_name(int val, const char *arg, int remote) { return keep_once(&name, "container-name", arg); }
static int set_env(int val, const char *arg, int remote) { return keep_once(&environment_kept, "container-env", arg); }

/* An even value is an option, the next one its contrary. */
static int set_flag(int val, const char *arg, int remote) {
  given[val] = 1;
  if (!given[val ^ 1]) return 0;
  slurm_error("pyxis: both --%s and --%s were specified", CONTRARY[val / 2][0], CONTRARY[val / 2][1]);
  return -1;
}

static int set_mounts(int val, const char *arg, int remote) {
  char *copy = strdup(arg), *rest = copy, *one;
  mount_count = 0;
  while (copy && (one = strsep(&rest, ","))) {
    char *target = strchr(one, ':');
    if (*one == ':' || !*one || (target && (!target[1] || target[1] == ':'))) {
      slurm_error("pyxis: --container-mounts: invalid format: %s", one);
      return -1;
    }
    if (!strspn(one, "./") || (target && !strspn(target + 1, "./"))) {
      slurm_error(strspn(one, "./") ? "pyxis: mount target must be a relative path or an absolute path"
                                    : "pyxis: mount source must be a relative path, an absolute path, \"tmpfs\" or \"umount\"");
      slurm_error("pyxis: could not add mount entry: %s%s%s", one, target ? "" : ":", target ? "" : one);
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
    {"container-writable", NULL, "[simulated pyxis] a writable layer over the image", 0, 0, set_flag},
    {"container-readonly", NULL, "[simulated pyxis] no writable layer (the default)", 0, 1, set_flag},
    {"container-mount-home", NULL, "[simulated pyxis] bind the user's home", 0, 2, set_flag},
    {"no-container-mount-home", NULL, "[simulated pyxis] leave the user's home out (the default)", 0, 3, set_flag},
    {"container-entrypoint", NULL, "[simulated pyxis] accepted; entrypoints never run", 0, 4, set_flag},
    {"no-container-entrypoint", NULL, "[simulated pyxis] accepted; entrypoints never run", 0, 5, set_flag},
    {"container-remap-root", NULL, "[simulated pyxis] accepted; uids stay as they are", 0, 6, set_flag},
    {"no-container-remap-root", NULL, "[simulated pyxis] accepted; uids stay as they are", 0, 7, set_flag},
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
  if (stat(source, &found)) {
    slurm_error("pyxis: --container-mounts: source path does not exist: %s", source);
    return -1;
  }
  snprintf(path, sizeof path, ROOT "%s", target);
  struct stat there;
  if (stat(path, &there) && make_parents(path, S_ISDIR(found.st_mode))) return fail("mount target %s", target);
  if (mount(source, path, NULL, MS_BIND | MS_REC, NULL)) return fail("mount %s on %s", source, target);
  if (flags && strstr(flags, "ro") && mount(NULL, path, NULL, MS_BIND | MS_REMOUNT | MS_RDONLY, NULL))
    return fail("mount %s read-only", target);
  return 0;
}

/* The job's value of a variable stays where --container-env names it. */
static int is_kept(const char *variable) {
  char kept[4096], wanted[4096];
  snprintf(kept, sizeof kept, ",%s,", environment_kept ? environment_kept : "");
  snprintf(wanted, sizeof wanted, ",%s,", variable);
  return strstr(kept, wanted) != NULL;
}

static void set_variable(spank_t sp, const char *variable, const char *value) {
  spank_setenv(sp, variable, value, !is_kept(variable));
}

/* What the hook 50-slurm-pytorch.sh and Pyxis set if the image sets PYTORCH_VERSION; over the job's values, but not over the image's. */
static void pytorch_environment(spank_t sp, const char *of_image) {
  char value[4096], nodes[4096] = "", command[8192];
  uint32_t job = 0, tasks = 0, task = 0;
  int local = 0;
  if (!strstr(of_image, "\nPYTORCH_VERSION=")) return;
  spank_get_item(sp, S_JOB_ID, &job);
  spank_get_item(sp, S_JOB_TOTAL_TASK_COUNT, &tasks);
  spank_get_item(sp, S_TASK_GLOBAL_ID, &task);
  spank_get_item(sp, S_TASK_ID, &local);
  snprintf(value, sizeof value, "%u", tasks);
  if (!strstr(of_image, "\nWORLD_SIZE=")) set_variable(sp, "WORLD_SIZE", value);
  snprintf(value, sizeof value, "%u", task);
  set_variable(sp, "RANK", value);
  snprintf(value, sizeof value, "%d", local);
  set_variable(sp, "LOCAL_RANK", value);
  snprintf(value, sizeof value, "%u", job % 4536 + 61000);
  if (!strstr(of_image, "\nMASTER_PORT=")) set_variable(sp, "MASTER_PORT", value);
  if (strstr(of_image, "\nMASTER_ADDR=") || spank_getenv(sp, "SLURM_STEP_NODELIST", nodes, sizeof nodes) != ESPANK_SUCCESS) return;
  snprintf(command, sizeof command, "scontrol show hostnames '%s'", nodes);
  FILE *first = popen(command, "re");
  if (first && fscanf(first, "%4095s", value) == 1) set_variable(sp, "MASTER_ADDR", value);
  if (first) pclose(first);
}

/* The image's /etc/environment, where `enroot import` keeps what the image sets, goes before the job's. */
static int image_environment(spank_t sp) {
  static const char *const locale[] = {"LANG", "LANGUAGE", "LC_ALL"};
  char line[8192], of_image[65536] = "\n";
  for (size_t i = 0; i < sizeof locale / sizeof *locale; i++)
    if (!is_kept(locale[i])) spank_unsetenv(sp, locale[i]);
  FILE *file = fopen(ROOT "/etc/environment", "re");
  if (!file) return 0;
  while (fgets(line, sizeof line, file)) {
    strncat(of_image, line, sizeof of_image - strlen(of_image) - 1);
    line[strcspn(line, "\n")] = 0;
    char *value = strchr(line, '=');
    if (!value || *line == '#') continue;
    *value++ = 0;
    set_variable(sp, line, value);
  }
  pytorch_environment(sp, of_image);
  return fclose(file);
}

/* As the hook 10-shadow.sh does: the image's users and the job's, whose home is an empty folder. */
static int add_user(uid_t uid, gid_t gid) {
  char home[PATH_MAX];
  struct passwd *user = getpwuid(uid);
  FILE *file = user && make_parents(ROOT "/etc/passwd", 0) == 0 ? fopen(ROOT "/etc/passwd", "ae") : NULL;
  if (!file || fprintf(file, "%s:x:%u:%u::%s:/bin/sh\n", user->pw_name, uid, gid, user->pw_dir) < 0 || fclose(file)) return -1;
  if ((file = fopen(ROOT "/etc/group", "ae")) && (fprintf(file, "%s:x:%u:\n", user->pw_name, gid) < 0 || fclose(file))) return -1;
  snprintf(home, sizeof home, ROOT "%s", user->pw_dir);
  if (access(home, F_OK) == 0) return 0;
  return make_parents(home, 1) || chmod(home, 0700) || chown(home, uid, gid);
}

/* As the hook 50-slurm-pmi.sh does: the folders of the step's PMIx server, where it has one. */
static int bind_pmix(spank_t sp, uid_t uid) {
  char path[2][PATH_MAX];
  uint32_t job = 0, step = 0;
  spank_get_item(sp, S_JOB_ID, &job);
  spank_get_item(sp, S_JOB_STEPID, &step);
  snprintf(path[0], PATH_MAX, "/tmp/spmix_appdir_%u_%u.%u", uid, job, step);
  snprintf(path[1], PATH_MAX, "/var/spool/slurmd/pmix.%u.%u", job, step);
  for (int i = 0; i < 2; i++)
    if (access(path[i], F_OK) == 0 && bind(path[i], path[i], NULL)) return -1;
  return 0;
}

static const char *folder(void) { return workdir ? workdir : "/"; }

static int no_folder(void) {
  slurm_error("pyxis: couldn't chdir to %s: %s", folder(), strerror(errno));
  return -1;
}

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

static int no_container(const char *reason) {
  slurm_error("pyxis: failed to create container filesystem for image: %s", image);
  slurm_error("pyxis:     [ERROR] %s: %s", reason, image);
  return -1;
}

/* Before the task gives up root. What is returned here reaches srun's exit status, which it does not from slurm_spank_init_post_opt. */
int slurm_spank_task_init_privileged(spank_t sp, int ac, char **av) {
  char home[PATH_MAX] = "", owned[64], owner[32];
  uid_t uid = 0;
  gid_t gid = 0;
  if (!image) return 0;
  spank_get_item(sp, S_JOB_UID, &uid);
  spank_get_item(sp, S_JOB_GID, &gid);
  snprintf(owned, sizeof owned, "mode=0755,uid=%u,gid=%u", uid, gid);
  errno = 0;
  if (!strspn(image, "./")) {
    slurm_error("pyxis: failed to import docker image: %s (simulated: only paths of squashfs files)", image);
    return -1;
  }
  if (access(image, R_OK)) return no_container("No such file or directory");
  /* The folders made here are for the task's user, whose umask the step has. */
  mode_t kept = umask(022);
  /* Private at once: nothing of what follows is seen outside the task, and all of it ends with the task. */
  if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL)) return fail("mount namespace");
  if ((mkdir(BASE, 0755) && errno != EEXIST) || mount("tmpfs", BASE, "tmpfs", 0, "mode=0755")) return fail(BASE);
  if (mkdir(LOWER, 0755) || mkdir(ROOT, 0755) || mkdir(BASE "/upper", 0755) || mkdir(BASE "/work", 0755)) return fail(BASE);
  if (run((char *[]){"mount", "-t", "squashfs", "-o", "loop,ro", image, LOWER, NULL}) &&
      run((char *[]){"unsquashfs", "-n", "-f", "-d", LOWER, image, NULL}))
    return no_container("Invalid image format");
  if (mount("overlay", ROOT, "overlay", 0, "lowerdir=" LOWER ",upperdir=" BASE "/upper,workdir=" BASE "/work"))
    return fail("overlay over %s", image);
  /* The genuine container's files are the user's own. */
  snprintf(owner, sizeof owner, "%u:%u", uid, gid);
  if (given[0] && run((char *[]){"chown", "-R", "-h", owner, ROOT, NULL})) return fail("owner of %s", image);
  if (image_environment(sp)) return fail("environment of %s", image);

  static const char *const system_mounts[] = {"/proc", "/sys", "/dev", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf"};
  for (size_t i = 0; i < sizeof system_mounts / sizeof *system_mounts; i++)
    if (access(system_mounts[i], F_OK) == 0 && bind(system_mounts[i], system_mounts[i], NULL)) return -1;
  static const char *const own[] = {"/tmp", "/var/run", "/var/lock"};
  for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
    char path[PATH_MAX];
    snprintf(path, sizeof path, ROOT "%s", own[i]);
    struct stat link;
    if (lstat(path, &link) == 0 && S_ISLNK(link.st_mode)) continue; /* it would lead out of the image */
    if (make_parents(path, 1) || mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, owned)) return fail("tmpfs on %s", own[i]);
  }
  if (bind_pmix(sp, uid) || add_user(uid, gid)) return fail("user or PMIx of %s", image);
  if (given[2] && spank_getenv(sp, "HOME", home, sizeof home) == ESPANK_SUCCESS && *home == '/' && home[1] &&
      access(home, F_OK) == 0 && bind(home, home, NULL))
    return -1;
  for (int i = 0; i < mount_count; i++) {
    char *rest = strdup(mounts[i]), *source = strsep(&rest, ":"), *target = strsep(&rest, ":");
    if (bind(source, target && *target ? target : source, rest)) return -1;
  }
  if (!given[0] && mount(NULL, ROOT, NULL, MS_REMOUNT | MS_RDONLY, NULL)) return fail("read-only root");

  if (chdir(ROOT) || syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH)) return fail("pivot_root");
  umask(kept);
  if (!workdir) image_workdir();
  struct stat found;
  if (stat(folder(), &found) || !S_ISDIR(found.st_mode)) return no_folder();
  return 0;
}

/* slurmstepd changes into the job's folder between the two hooks, so the container's comes last. */
int slurm_spank_task_init(spank_t sp, int ac, char **av) {
  if (image && chdir(folder())) return no_folder();
  return 0;
}
