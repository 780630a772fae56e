/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parameters of modules that have callbacks: these take and give text, as a kernel's do.
 */
#include <knee/module_net.h>
#include <knee/support.h>

/* Of the C library. */
unsigned long long strtoull(const char *text, char **end, int base);
long long strtoll(const char *text, char **end, int base);

/* What is left behind a number: nothing, or the new line that a shell's echo leaves. */
static bool is_whole(const char *text, const char *end)
{
	return end != text && (!*end || (end[0] == '\n' && !end[1]));
}

/* The library's own would take white space and a sign in front. */
static bool begins_a_number(const char *text)
{
	return *text >= '0' && *text <= '9';
}

int kstrtoull(const char *text, unsigned int base, unsigned long long *value)
{
	const char *from = *text == '+' ? text + 1 : text;
	char *end;
	unsigned long long read;

	if (!begins_a_number(from) && base != 16)
		return -EINVAL;
	read = strtoull(from, &end, (int)base);
	if (!is_whole(from, end))
		return -EINVAL;
	*value = read;
	return 0;
}

int kstrtoll(const char *text, unsigned int base, long long *value)
{
	unsigned long long read;
	int failed = kstrtoull(*text == '-' ? text + 1 : text, base, &read);

	if (failed)
		return failed;
	if (*text == '-' ? read > 1ull << 63 : read >> 63)
		return -ERANGE;
	*value = *text == '-' ? (long long)(0 - read) : (long long)read;
	return 0;
}

int kstrtobool(const char *text, bool *value)
{
	switch (*text) {
	case 'y': case 'Y': case 't': case 'T': case '1':
		*value = true;
		return 0;
	case 'n': case 'N': case 'f': case 'F': case '0':
		*value = false;
		return 0;
	case 'o': case 'O':
		*value = text[1] == 'n' || text[1] == 'N';
		return *value || text[1] == 'f' || text[1] == 'F' ? 0 : -EINVAL;
	}
	return -EINVAL;
}

#define NARROWER(function, type, wide_type, wide_function)			\
	int function(const char *text, unsigned int base, type *value)		\
	{									\
		wide_type read;							\
		int failed = wide_function(text, base, &read);			\
										\
		if (failed)							\
			return failed;						\
		if ((wide_type)(type)read != read)				\
			return -ERANGE;						\
		*value = (type)read;						\
		return 0;							\
	}
NARROWER(kstrtouint, unsigned int, unsigned long long, kstrtoull)
NARROWER(kstrtoint, int, long long, kstrtoll)

int scnprintf(char *to, size_t bytes, const char *format, ...)
{
	__builtin_va_list arguments;
	int n;

	__builtin_va_start(arguments, format);
	n = vsnprintf(to, bytes, format, arguments);
	__builtin_va_end(arguments);
	return (size_t)n < bytes ? n : (int)bytes - 1;
}

#define TABLE(type)								\
	const struct kernel_param_ops param_ops_##type = { 0, param_set_##type, param_get_##type, NULL };
#define NUMBER(name, type, wide_type, wide_function, form)			\
	int param_set_##name(const char *value, const struct kernel_param *kp)	\
	{									\
		wide_type read;							\
		int failed = wide_function(value, 0, &read);			\
										\
		if (failed)							\
			return failed;						\
		if ((wide_type)(type)read != read)				\
			return -ERANGE;						\
		*(type *)kp->arg = (type)read;					\
		return 0;							\
	}									\
	int param_get_##name(char *buffer, const struct kernel_param *kp)	\
	{									\
		return scnprintf(buffer, KNEE_PARAM_TEXT, form, *(type *)kp->arg); \
	}									\
	TABLE(name)
NUMBER(byte, unsigned char, unsigned long long, kstrtoull, "%hhu\n")
NUMBER(short, short, long long, kstrtoll, "%hd\n")
NUMBER(ushort, unsigned short, unsigned long long, kstrtoull, "%hu\n")
NUMBER(int, int, long long, kstrtoll, "%d\n")
NUMBER(uint, unsigned int, unsigned long long, kstrtoull, "%u\n")
NUMBER(hexint, unsigned int, unsigned long long, kstrtoull, "%#08x\n")
NUMBER(long, long, long long, kstrtoll, "%ld\n")
NUMBER(ulong, unsigned long, unsigned long long, kstrtoull, "%lu\n")
NUMBER(ullong, unsigned long long, unsigned long long, kstrtoull, "%llu\n")

int param_set_bool(const char *value, const struct kernel_param *kp)
{
	return kstrtobool(value ? value : "1", kp->arg);
}

int param_get_bool(char *buffer, const struct kernel_param *kp)
{
	return scnprintf(buffer, KNEE_PARAM_TEXT, "%c\n", *(bool *)kp->arg ? 'Y' : 'N');
}
TABLE(bool)

int param_set_bint(const char *value, const struct kernel_param *kp)
{
	bool read;
	int failed = kstrtobool(value ? value : "1", &read);

	if (!failed)
		*(int *)kp->arg = read;
	return failed;
}

int param_get_bint(char *buffer, const struct kernel_param *kp)
{
	return scnprintf(buffer, KNEE_PARAM_TEXT, "%c\n", *(int *)kp->arg ? 'Y' : 'N');
}
TABLE(bint)

int param_set_invbool(const char *value, const struct kernel_param *kp)
{
	bool read;
	int failed = kstrtobool(value, &read);

	if (!failed)
		*(bool *)kp->arg = !read;
	return failed;
}

int param_get_invbool(char *buffer, const struct kernel_param *kp)
{
	return scnprintf(buffer, KNEE_PARAM_TEXT, "%c\n", *(bool *)kp->arg ? 'N' : 'Y');
}
TABLE(invbool)

int param_set_uint_minmax(const char *value, const struct kernel_param *kp,
			  unsigned int low, unsigned int high)
{
	unsigned int read;
	int failed = kstrtouint(value, 0, &read);

	if (failed)
		return failed;
	if (read < low || read > high)
		return -EINVAL;
	*(unsigned int *)kp->arg = read;
	return 0;
}

/* What the simulator calls: text in and out, of a parameter with callbacks. */
int knee_param_get(const struct knee_param *param, char *text)
{
	int n;

	if (!param->kernel->ops->get)
		return -EPERM;
	memset(text, 0, KNEE_PARAM_TEXT);
	n = param->kernel->ops->get(text, param->kernel);
	text[KNEE_PARAM_TEXT - 1] = 0;
	return n;
}

int knee_param_set(const struct knee_param *param, const char *text)
{
	if (!param->kernel->ops->set)
		return -EPERM;
	return param->kernel->ops->set(text, param->kernel);
}
