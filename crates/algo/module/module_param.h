/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parameters of a module, its start, and what it says of itself: linux/module.h and linux/moduleparam.h.
 */
#ifndef KNEE_MODULE_PARAM_H
#define KNEE_MODULE_PARAM_H

struct module;
#define THIS_MODULE		((struct module *)0)

enum knee_param_type {
	KNEE_PARAM_bool = 1,
	KNEE_PARAM_byte,
	KNEE_PARAM_short,
	KNEE_PARAM_ushort,
	KNEE_PARAM_int,
	KNEE_PARAM_uint,
	KNEE_PARAM_long,
	KNEE_PARAM_ulong,
	KNEE_PARAM_ullong,
	KNEE_PARAM_charp,
	KNEE_PARAM_callback,		/* of no type that is known: as the callbacks read and write it */
};

#define KNEE_PARAM_hexint	KNEE_PARAM_uint
#define KNEE_PARAM_invbool	KNEE_PARAM_bool
#define KNEE_PARAM_bint		KNEE_PARAM_int

typedef bool knee_param_bool;
typedef unsigned char knee_param_byte;
typedef short knee_param_short;
typedef unsigned short knee_param_ushort;
typedef int knee_param_int;
typedef unsigned int knee_param_uint;
typedef unsigned int knee_param_hexint;
typedef long knee_param_long;
typedef unsigned long knee_param_ulong;
typedef unsigned long long knee_param_ullong;
typedef char *knee_param_charp;
typedef int knee_param_bint;
typedef bool knee_param_invbool;

/* The number of a variable's type, for callbacks, which are told its address alone. */
#define KNEE_PARAM_TYPE_OF(pointer) _Generic((pointer),				\
	bool *: KNEE_PARAM_bool,						\
	unsigned char *: KNEE_PARAM_byte,					\
	short *: KNEE_PARAM_short,						\
	unsigned short *: KNEE_PARAM_ushort,					\
	int *: KNEE_PARAM_int,							\
	unsigned int *: KNEE_PARAM_uint,					\
	long *: KNEE_PARAM_long,						\
	unsigned long *: KNEE_PARAM_ulong,					\
	unsigned long long *: KNEE_PARAM_ullong,				\
	default: KNEE_PARAM_callback)

struct kernel_param;

struct kernel_param_ops {
	unsigned int flags;
	int (*set)(const char *value, const struct kernel_param *kp);
	int (*get)(char *buffer, const struct kernel_param *kp);
	void (*free)(void *arg);
};

#define KERNEL_PARAM_OPS_FL_NOARG	1

struct kernel_param {
	const char *name;
	struct module *mod;
	const struct kernel_param_ops *ops;
	const u16 perm;
	s8 level;
	u8 flags;
	void *arg;
};

/* A parameter and a description, gathered by the linker from wherever they stand. */
struct knee_param {
	const char *name;
	void *variable;
	u32 type;
	u32 line;			/* where it stands: compilers turn them round */
	const struct kernel_param *kernel;	/* with callbacks; NULL: a variable alone */
};

struct knee_param_meaning {
	const char *name;
	const char *meaning;
};

/* Called behind their names: (param_set_uint)(...) is the function. */
#define KNEE_PARAM_FUNCTIONS(F) F(bool) F(byte) F(short) F(ushort) F(int) F(uint) F(hexint) F(long) F(ulong) F(ullong) \
	F(bint) F(invbool)

#ifdef __bpf__
/* Who loads a program of the kernel sets the variables themselves, and no callback is called. */
#define KNEE_DECLARE_PARAM(type)						\
	static inline int param_set_##type(const char *value, const struct kernel_param *kp) { return 0; } \
	static inline int param_get_##type(char *buffer, const struct kernel_param *kp) { return 0; } \
	static const struct kernel_param_ops param_ops_##type __maybe_unused = { 0 };
static inline int param_set_uint_minmax(const char *value, const struct kernel_param *kp,
					unsigned int low, unsigned int high)
{
	return 0;
}
#else
/* In support_param.c. */
#define KNEE_DECLARE_PARAM(type)						\
	int param_set_##type(const char *value, const struct kernel_param *kp);	\
	int param_get_##type(char *buffer, const struct kernel_param *kp);	\
	extern const struct kernel_param_ops param_ops_##type;
int param_set_uint_minmax(const char *value, const struct kernel_param *kp,
			  unsigned int low, unsigned int high);

/* The conversions of linux/kernel.h, of a whole text that may end in a new line: 0, -EINVAL or -ERANGE. */
int kstrtoull(const char *text, unsigned int base, unsigned long long *value);
int kstrtoll(const char *text, unsigned int base, long long *value);
int kstrtouint(const char *text, unsigned int base, unsigned int *value);
int kstrtoint(const char *text, unsigned int base, int *value);
int kstrtobool(const char *text, bool *value);
#define kstrtou64(text, base, value)	kstrtoull(text, base, (unsigned long long *)(value))
#define kstrtos64(text, base, value)	kstrtoll(text, base, (long long *)(value))
#define kstrtou32(text, base, value)	kstrtouint(text, base, value)
#define kstrtos32(text, base, value)	kstrtoint(text, base, value)
#define kstrtoul(text, base, value)	kstrtoull(text, base, (unsigned long long *)(value))
#define kstrtol(text, base, value)	kstrtoll(text, base, (long long *)(value))

int snprintf(char *to, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
int scnprintf(char *to, size_t bytes, const char *format, ...) __attribute__((format(printf, 3, 4)));
int sprintf(char *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
#define sysfs_emit(buffer, ...)		scnprintf(buffer, 4096, __VA_ARGS__)
#endif

KNEE_PARAM_FUNCTIONS(KNEE_DECLARE_PARAM)

#define KNEE_PARAM_ROW(id, name, variable, type, kernel)			\
	static const struct knee_param knee_param_of_##id			\
	__attribute__((used, aligned(8), section("knee_params"))) =		\
		{ #name, (void *)(variable), type, __LINE__, kernel }

#define module_param_named(name, variable, type, permissions)			\
	_Static_assert(sizeof(variable) == sizeof(knee_param_##type),		\
		       "module_param: the variable has another size than its type " #type); \
	KNEE_PARAM_ROW(name, name, &(variable), KNEE_PARAM_##type, NULL)
#define module_param(variable, type, permissions)				\
	module_param_named(variable, variable, type, permissions)
#define module_param_unsafe(variable, type, permissions)			\
	module_param(variable, type, permissions)
#define module_param_named_unsafe(name, variable, type, permissions)		\
	module_param_named(name, variable, type, permissions)
#define module_param_hw(variable, type, kind, permissions)			\
	module_param(variable, type, permissions)
#define module_param_cb(name_, operations, pointer, permissions)		\
	static const struct kernel_param knee_kernel_param_of_##name_ __maybe_unused = { \
		.name = #name_, .ops = (operations), .perm = (permissions), .arg = (void *)(pointer), \
	};									\
	KNEE_PARAM_ROW(name_, name_, pointer, KNEE_PARAM_TYPE_OF(pointer),	\
		       KNEE_CALLBACKS(&knee_kernel_param_of_##name_))
#define module_param_cb_unsafe(name, operations, pointer, permissions)		\
	module_param_cb(name, operations, pointer, permissions)
#define module_param_call(name_, set_, get_, pointer, permissions)		\
	static const struct kernel_param_ops knee_param_ops_of_##name_ =	\
		{ .flags = 0, .set = (set_), .get = (get_) };			\
	module_param_cb(name_, &knee_param_ops_of_##name_, pointer, permissions)
#ifdef __bpf__
#define KNEE_CALLBACKS(kernel)	NULL
#else
#define KNEE_CALLBACKS(kernel)	kernel
#endif
#define module_param_array(...)							\
	_Static_assert(0, "knee: module_param_array is not supported: parameters are single values")
#define module_param_array_named(...)						\
	_Static_assert(0, "knee: module_param_array is not supported: parameters are single values")
#define module_param_string(...)						\
	_Static_assert(0, "knee: module_param_string is not supported: parameters are numbers")
#define MODULE_PARM_DESC(parameter, text)					\
	static const struct knee_param_meaning knee_meaning_of_##parameter	\
	__attribute__((used, aligned(8), section("knee_meanings"))) =		\
		{ #parameter, text }
#define kernel_param_lock(mod)		do { } while (0)
#define kernel_param_unlock(mod)	do { } while (0)

/* In BPF the table is registered by whoever loads the object. */
#ifdef __bpf__
#define module_init(function)	struct knee_nothing
#define module_exit(function)	struct knee_nothing
#else
/* Of several files that are one module here, each has its own. */
struct knee_init {
	int (*function)(void);
	u32 file;
};

#define module_init(function)							\
	static const struct knee_init knee_init_of_file				\
	__attribute__((used, aligned(8), section("knee_inits"))) = { function, KNEE_FILE }
#define module_exit(function)	struct knee_nothing; static void (*const knee_exit)(void) __maybe_unused = function
#endif
#define late_initcall(function)	module_init(function)
#define subsys_initcall(function) module_init(function)
#define device_initcall(function) module_init(function)
#define fs_initcall(function)	module_init(function)

/* A declaration that repeats itself: these stand at file level, each with its semicolon. */
#define KNEE_NOTHING		struct knee_nothing
#define MODULE_LICENSE(text)	KNEE_NOTHING
#define MODULE_AUTHOR(text)	KNEE_NOTHING
#define MODULE_DESCRIPTION(text) KNEE_NOTHING
#define MODULE_VERSION(text)	KNEE_NOTHING
#define MODULE_ALIAS(text)	KNEE_NOTHING
#define MODULE_INFO(tag, text)	KNEE_NOTHING
#define MODULE_SOFTDEP(text)	KNEE_NOTHING
#define MODULE_IMPORT_NS(name)	KNEE_NOTHING
#define MODULE_FIRMWARE(text)	KNEE_NOTHING
#define EXPORT_SYMBOL(name)	KNEE_NOTHING
#define EXPORT_SYMBOL_GPL(name)	KNEE_NOTHING
#define try_module_get(module)	((void)(module), true)
#define module_put(module)	((void)(module))
#define __module_get(module)	((void)(module))

#define KERNEL_VERSION(a, b, c)	(((a) << 16) + ((b) << 8) + ((c) > 255 ? 255 : (c)))
#ifndef LINUX_VERSION_CODE
#define LINUX_VERSION_CODE	KNEE_LINUX_VERSION
#endif

/* ---- BPF's view of the module, which nobody has here ---- */

struct btf_id_set8 {
	u32 cnt;
};

struct btf_kfunc_id_set {
	struct module *owner;
	struct btf_id_set8 *set;
};

enum {
	BPF_PROG_TYPE_UNSPEC = 0,
	BPF_PROG_TYPE_STRUCT_OPS = 27,
};

#define __bpf_kfunc		__attribute__((used))
#define __bpf_kfunc_start_defs() KNEE_NOTHING
#define __bpf_kfunc_end_defs()	KNEE_NOTHING
#define BTF_SET8_START(name)	static struct btf_id_set8 name __maybe_unused = { 0 };
#define BTF_SET8_END(name)
#define BTF_KFUNCS_START(name)	BTF_SET8_START(name)
#define BTF_KFUNCS_END(name)
#define BTF_SET_START(name)	BTF_SET8_START(name)
#define BTF_SET_END(name)
#define BTF_ID(kind, name)
#define BTF_ID_FLAGS(kind, name, ...)

static inline int register_btf_kfunc_id_set(int type, const struct btf_kfunc_id_set *set)
{
	(void)type;
	(void)set;
	return 0;
}

#endif
