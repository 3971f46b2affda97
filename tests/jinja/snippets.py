"""Small templates, one construct each, for compare.py. Variables: VARIABLES below."""

VARIABLES = {
    "s": "Hello, World", "t": "  padded\t\n", "u": "Grüße, Ελλάδα 你好 🎉", "e": "", "multi": "a\nb\n\n  c\r\nd",
    "n": 7, "z": 0, "f": 2.5, "neg": -3, "big": 12345678901234567890, "yes": True, "no": False, "nil": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c", "a"], "le": [], "mixed": [1, "two", None, 3.0, True, [1], {"k": "v"}],
    "d": {"one": 1, "two": "zwei", "three": [1, 2], "items": "shadow"}, "de": {}, "nested": {"a": {"b": [{"c": "deep"}]}},
    "people": [{"name": "Ann", "age": 30, "x": {"y": 2}}, {"name": "bob", "age": 25, "x": {"y": 1}}, {"name": "Cy", "age": 30}],
    "q": "it's \"quoted\" \\ <b>&</b>", "csv": "a,b,,c", "num": " 42 ", "ctl": "a\u0001b\u007f\u0085c", "tag": "<|im_end|>",
}

EXPRESSIONS = r"""
s
u|upper
u|lower
s|title
'foo bar-baz (qux) [x] {y} <z>'|title
u|capitalize
t|trim
s|trim('Hd')
s|length
u|length
l|length
d|length
nope|length
d|count
d|items|list
nope|items|list
ls|join
ls|join(', ')
people|join(', ', attribute='name')
mixed|join('|')
nope|default('x')
e|default('x')
e|default('x', true)
nil|d('x', boolean=True)
nope|default
s|replace('l', 'L')
s|replace('l', 'L', 2)
s|replace('', '-')
u|replace('ü', 'ue')
l|first
l|last
s|first
u|last
le|first
d|first
'42'|int
num|int
'x'|int
'x'|int(5)
'0x1F'|int(base=16)
'42.9'|int
f|int
nil|int(3)
'1_000'|int
'1.5'|float
'abc'|float
'abc'|float(1.25)
'1e3'|float
n|float
neg|abs
-2.5|abs
f|round
3.5|round
2.675|round(2)
f|round(0, 'ceil')
f|round(method='floor')
42.55|round(1, 'floor')
n|round
15|round(-1)
1234.5|round(-2)
ls|map('upper')|list
people|map(attribute='name')|list
people|map(attribute='x.y', default='?')|list
people|map(attribute='nope', default='?')|join(',')
['1','2']|map('int')|sum
l|select('odd')|list
l|reject('odd')|list
mixed|select|list
mixed|reject|list
l|select('gt', 1)|list
l|select('in', [1, 3])|list
people|selectattr('age', 'equalto', 30)|map(attribute='name')|list
people|rejectattr('age', 'equalto', 30)|map(attribute='name')|list
people|selectattr('x')|list|length
people|selectattr('x', 'defined')|list|length
people|selectattr('x.y', 'eq', 1)|list
people|rejectattr('x')|map(attribute='name')|list
ls|unique|list
[1, 1.0, True, 2]|unique|list
people|unique(attribute='age')|map(attribute='name')|list
ls|sort
ls|sort(case_sensitive=true)
l|sort(reverse=true)
people|sort(attribute='name')|map(attribute='name')|list
people|sort(attribute='age,name')|map(attribute='name')|list
people|sort(attribute='age', reverse=true)|map(attribute='name')|list
l|reverse|list
s|reverse
u|reverse
d|dictsort
d|dictsort(reverse=true)
{'b': 1, 'A': 2}|dictsort(true)
{'b': 1, 'A': 2}|dictsort(by='value')
l|sum
people|sum(attribute='age')
[1.5, 2]|sum(start=10)
l|min
l|max
ls|min
ls|max
le|max
people|max(attribute='age')
[1,2,3,4,5]|batch(2)|list
[1,2,3,4,5]|batch(2, 'x')|list
[1,2,3,4,5]|slice(3)|list
[1,2,3,4,5]|slice(3, 'x')|list
multi|indent
multi|indent(2, true)
multi|indent(2, blank=true)
multi|indent('> ', first=True, blank=True)
q|e
q|escape
q|safe
(q|safe) + '<'
'<' + (q|safe)
'<' ~ (q|safe)
q|e|e
q|forceescape
'%s-%d'|format('a', 3)
'%(a)s'|format(a=1)
'a b c_d, e-f'|wordcount
u|wordcount
'a b/c?d&e=ü'|urlencode
{'a b': 'c/d', 'e': 1}|urlencode
[('x', 'y z')]|urlencode
'abc'|center(9)
'foo bar baz qux'|truncate(9)
'foo bar baz qux'|truncate(9, True)
'foo bar baz qux'|truncate(11)
'foo bar baz qux'|truncate(11, False, '...', 0)
d|tojson
mixed|tojson
u|tojson
u|tojson(ensure_ascii=true)
q|tojson
ctl|tojson
d|tojson(indent=2)
d|tojson(indent=0)
nested|tojson(indent=4)
d|tojson(separators=(',', ':'))
d|tojson(sort_keys=true)
d|tojson(indent='\t')
big|tojson
[1.0, 1e20, 1e-7, 0.1, 100000.0, 1e16, 123456789.123]|tojson
(1, 2)|tojson
{1: 2, none: 3, true: 4, 1.5: 6}|tojson
de|tojson
le|tojson(indent=2)
nope|tojson
l|string
d|string
s|list
u|list
d|list
range(5)|list
range(1, 10, 3)|list
range(5, 0, -2)|list
range(3)
range(0, 6, 2)
range(5)[1:3]|list
range(100001)|list
range(3)|length
2 in range(3)
dict(a=1, b='x')
dict([('a', 1), ('b', 2)], c=3)
dict(d, one=5)
1 + 2
7 / 2
6 / 2
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
2.0 * 3
1 - 2.5
0.1 + 0.2
1e3
1_000
0x1f
0b101
0o17
1.5e-3
1e16 + 0
'a' + 'b'
'a' ~ 1 ~ none ~ true ~ 1.5
'ab' * 3
3 * 'ab'
[1] * 2
[1] + [2]
(1,) + (2,)
'a' + 1
1 + 'a'
1 / 0
1 // 0
1 % 0
'a' - 'b'
none + 1
yes + 1
-yes
+f
-'a'
1 < 2 < 3
1 < 2 > 3
1 == 1.0
1 == true
'a' == 'a'
'a' < 'b'
'a' < 1
[1, 2] < [1, 3]
[1] == (1,)
none == none
none < 1
d == {'one': 1}
nope == nope2
1 in l
9 not in l
'ell' in s
'x' in d
'one' in d
1 in s
'a' in nope
1 in 5
none in [none]
not yes
not e
yes and 'x'
no or 'x'
e or nil or 'last'
yes and not no
1 if yes else 2
1 if no else 2
1 if no
(1 if no) is undefined
1 if yes else 2 if no else 3
s[0]
s[-1]
s[100]
s[1:4]
s[:-2]
s[::-1]
s[::2]
s[-3:]
s[5:2]
s[10:2:-3]
u[2:8]
u[::-1]
u[-1]
l[0]
l[-1]
l[9]
l[::-1]
l[1:]
l[:1]
l[5:]
l[::0]
mixed[1:5:2]
(1,2,3)[::-1]
d['one']
d['nope']
d.one
d.nope
d.nope.x
d['items']
d.items()|list
d.get('one')
d.get('x')
d.get('x', 'y')
d.keys()|list
d.values()|list
d.keys()
d.values()
d.items()
nested.a.b[0].c
nested['a']['b'][0]['c']
people.0.name
people[0]['name']
nil.x
nil.x.y
nope
nope.x
nope.x.y
nope['x']
nope()
n()
s.upper()
s.lower()
s.title()
"they're bill's".title()
s.capitalize()
s.swapcase()
t.strip()
t.lstrip()
t.rstrip()
s.strip('Hd')
'xxabcxx'.lstrip('x')
'xxabcxx'.rstrip('x')
csv.split(',')
csv.split(',', 1)
csv.rsplit(',', 1)
csv.split(',', maxsplit=1)
' a  b c '.split()
' a  b c '.split(none, 1)
' a  b c '.rsplit(none, 1)
csv.split('')
csv.split(',')[0]
''.split(',')
''.split()
multi.splitlines()
multi.splitlines(true)
csv.partition(',')
csv.rpartition(',')
csv.partition('x')
s.startswith('Hell')
s.startswith(('x', 'H'))
s.endswith('ld')
s.endswith(('x', 'd'))
s.startswith('o', 4)
s.startswith('x', 100)
s.startswith(1)
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('o', '')
s.find('o')
s.find('o', 5)
s.find('x')
s.rfind('o')
u.find('你')
s.index('W')
s.index('x')
s.count('l')
s.count('')
s.count('o', 0, 5)
', '.join(ls)
', '.join(l)
''.join(['a', 'b'])
'-'.join('abc')
'{} {}'.format(1, 'x')
'{0} {1} {0}'.format('a', 'b')
'{name}!'.format(name='n')
'{{}} {}'.format(1)
'{:>5}|{:<5}|{:^5}'.format('a', 'b', 'c')
'{:05d} {:+d} {:,}'.format(42, 42, 1234567)
'{:.2f} {:8.3f} {:e}'.format(1.005, 2.0, 12345.678)
'{:x} {:X} {:#x} {:b}'.format(255, 255, 255, 5)
'{:.1%}'.format(0.256)
'{!r} {!s}'.format('a', 'b')
'{0[one]} {0[three][1]}'.format(d)
'{}'.format()
'{x}'.format()
'%s' % 'a'
'%s %s' % ('a', 1)
'%d%%' % 50
'%5.2f|%-5d|%05d|%+d' % (3.14159, 42, 42, 42)
'%x %X %o' % (255, 255, 8)
'%r' % 'a'
'%s' % ()
'%s' % [1]
'%s %s' % 'a'
'a' % 'b'
'%(one)s' % d
'%d' % 'a'
'%e %g %g' % (12345.678, 0.0001, 1e20)
'123'.isdigit()
'12a'.isdigit()
'abc'.isalpha()
'ab1'.isalnum()
' \t'.isspace()
''.isspace()
'ABC'.isupper()
'abc'.islower()
'a'.ljust(3, '.')
'a'.rjust(3, '.')
'a'.center(4, '.')
'ab'.center(5, '.')
'-7'.zfill(4)
'prefix-x'.removeprefix('prefix-')
'x.py'.removesuffix('.py')
l.index(1)
l.index(9)
l.count(1)
l.append(4)
d.update({'x': 1})
d.pop('one')
(1, 2, 1).count(1)
s.nope()
s.nope
s.__class__
1.5|string
1e20|string
1e-5
0.0001
123456789012345680.0
1e15
100.0
true
none
True
False
None
[true, none, 1.5, 'a', "b'c", 'd"e', 'f\'"g', 'n\nl']
{'a': 1, 'b': [1, {'c': none}]}
(1,)
()
(1, 'a')
mixed
ctl
[ctl]
[u]
[q]
['\x00\x1f\x7f\u200b\ue000']
'\x41\u00e9\U0001F389\101\q\\'
"a" "b" 'c'
'a\
b'
s is defined
nope is defined
nope is undefined
nil is none
s is string
n is string
n is number
yes is number
n is integer
yes is integer
f is float
yes is boolean
d is mapping
l is mapping
l is iterable
s is iterable
n is iterable
d is iterable
nope is iterable
l is sequence
s is sequence
n is sequence
d is sequence
nope is sequence
d.items() is sequence
d.items() is iterable
(l|map('string')) is iterable
(l|map('string')) is sequence
n is odd
n is even
n is divisibleby 7
n is divisibleby(2)
yes is true
yes is false
no is false
n is true
'abc' is lower
'ABC' is upper
nil is sameas none
yes is sameas true
1 is sameas true
n is eq 7
n is equalto(7)
n is ne 7
n is gt 5
n is greaterthan(5)
n is ge 7
n is lt 5
n is lessthan 9
n is le 7
1 is in l
1 is in [2]
s is not string
not s is string
range is callable
s is callable
s.upper is callable
'upper' is filter
'nope' is filter
'odd' is test
q|e is escaped
q is escaped
s is not defined and n is defined
n is not none
1 is number and 2 is even
f is odd
s is odd
'%d' is string
loop is defined
l|map('nope')|list
s|attr('upper') is callable
d|attr('one')
namespace(a=1).a
namespace(a=1).b
namespace({'x': 2}, y=3).x
namespace(a=1)['a']
raise_exception('boom')
strftime_now('%Y-%m-%d')
strftime_now('%d %b %Y')
[1, 2, 3,]
{'a': 1,}
(l|length) > 2 and s
l|length > 2
l | length - 1
s|upper|lower|title
-n|abs
not n is odd
'a' in 'abc' and 'x' not in 'abc'
'a' 'b' in 'xaby'
s[n-7:n]|upper
d['o' ~ 'ne']
(s + u)|length
(s ~ u)[3:15]
{'a': {'b': 1}}.a.b
[[1, 2], [3]][0][1]
d.three[0]
1|foo
1 is foo
[]|sort
['b', 1]|sort
[none, 1]|min
l|join(l)
true and false or true
n if n > 5 and n < 10 else none
'%s' % tag
tag|replace('|', '!')
tag ~ '<|im_end|>'
nil|trim
n|trim
nil|upper
l|upper
d|join(',')
u.isalpha()
'ǅ'.islower()
'٣'.isdigit()
'a,b'|list|join('-')
"\n".join(multi.splitlines())|trim|upper
[['a', 1], ['b', 2]]|map('first')|list
[['a', 1], ['b', 2]]|map(attribute=1)|list
[['a', 1], ['b', 2]]|map('join', ':')|list
ls|map('replace', 'a', 'Z')|list
people|map('tojson')|join(';')
l|map('string')|join
(l|list)[1]
(l|reverse)[1]
l|sort|first
l|reverse|first
l * 0
'' * 5
'x' * -1
'abc'[1]
'abc'['upper']()
'abc'[yes]
l[no]
d[1]
d[none]
d[l]
l['x']
l.x
l[1.0]
5 in d
l in [l]
[1,[2]] == [1,[2]]
{'a':1} == {'a':1.0}
{'a':[1]} == {'a':[2]}
1 != 2 != 1
1 >= 1 <= 2
'' < 'a' <= 'a'
1.5 > 1
-1 < -0.5
9007199254740993 == 9007199254740992.0
9223372036854775807
9223372036854775807 - 1
""" .strip("\n").split("\n")

STATEMENTS = [
    "{% if yes %}a{% elif no %}b{% else %}c{% endif %}", "{% if no %}a{% elif n %}b{% else %}c{% endif %}",
    "{% for x in l %}{{ loop.index }}/{{ loop.index0 }}/{{ loop.revindex }}/{{ loop.revindex0 }}/{{ loop.first }}/{{ loop.last }}/{{ loop.length }}/{{ loop.depth }} {% endfor %}",
    "{% for x in l %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }};{% endfor %}",
    "{% for x in l %}{% if loop.previtem is defined %}{{ loop.previtem + x }}{% endif %}{% endfor %}",
    "{% for x in le %}a{% else %}empty{% endfor %}", "{% for x in l if x > 1 %}{{ loop.index }}:{{ x }} {% else %}none{% endfor %}",
    "{% for x in l if x > 5 %}{{ x }}{% else %}none{% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}",
    "{% for k, v in d|items %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }};{% endfor %}", "{% for c in u %}[{{ c }}]{% endfor %}",
    "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}",
    "{% for x in nope %}a{% else %}b{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in nil %}{% endfor %}",
    "{% for x in range(10) %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 5 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in l %}{{ loop.cycle('odd', 'even') }} {% endfor %}", "{% for x in [1,1,2] %}{{ loop.changed(x) }} {% endfor %}",
    "{% for x in [1,2] %}{% for y in [3,4] %}{{ loop.index }}{{ x }}{{ y }} {% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in l %}{% set y = x %}{% endfor %}{{ y }}", "{% set y = 1 %}{% for x in l %}{% set y = x %}{% endfor %}{{ y }}",
    "{% set ns = namespace(v=0) %}{% for x in l %}{% set ns.v = ns.v + x %}{% endfor %}{{ ns.v }}", "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}{{ ns.b }}",
    "{% set d.x = 1 %}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a, b = 'xy' %}{{ a }}{{ b }}", "{% set a = 1, 2 %}{{ a }}", "{% set (a, b) = l[:2] %}{{ a }}{{ b }}",
    "{% set x %}block {{ n }}{% endset %}[{{ x }}]", "{% set x | upper %}block {{ n }}{% endset %}[{{ x }}]", "{% set x|replace('b','c')|upper %}ab{% endset %}{{ x }}",
    "{% macro m(a, b=2, c='x') %}{{ a }}-{{ b }}-{{ c }}{% endmacro %}{{ m(1) }} {{ m(1, c=3) }} {{ m(b=1, a=2) }} {{ m() }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(x=2) }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, k=3) }}",
    "{% macro m(x) %}[{{ caller() }}{{ x }}]{% endmacro %}{% call m(1) %}body{{ n }}{% endcall %}", "{% macro m(x) %}{{ caller(x, 2) }}{% endmacro %}{% call(a, b) m(1) %}{{ a }}+{{ b }}{% endcall %}",
    "{% macro m() %}{{ x }}{% endmacro %}{% set x = 5 %}{{ m() }}", "{% for i in l %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro f(k) %}{% if k > 0 %}{{ k }}{{ f(k - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro m(a, b=a) %}{{ b }}{% endmacro %}{{ m(3) }}", "{% macro m() %}x{% endmacro %}{{ m()|upper ~ m() }}{{ m.name }}",
    "{% filter upper %}abc{{ s }}{% endfilter %}", "{% filter replace('a','b')|upper %}aac{% endfilter %}", "{% with a = 1, b = 2 %}{{ a + b }}{% endwith %}{{ a }}", "{% set a = 5 %}{% with a = 1, b = a %}{{ a }}{{ b }}{% endwith %}",
    "{% raw %}{{ x }} {% if %}{% endraw %}", "a {%- raw -%}  {{ x }}  {%- endraw -%} b", "{# comment {{ x }} #}a{#- b -#} c", "a\n  {# c #}\nb", "a\n  {% if yes %}\n  b\n  {% endif %}\nc\n",
    "a\n  {%- if yes %}\n  b\n  {%- endif %}\nc\n", "a\n  {% if yes -%}\n  b\n  {% endif -%}\n c\n\n", "a\n  {%+ if yes %}\n  b\n  {%+ endif %}\nc", "a {% if yes %} b {% endif %} c", "  {% if yes %}x{% endif +%}\ny",
    "  {{ n }}  \n  {{- n -}}  \n z", "{% if yes %}\n\n a{% endif %}", "\n{% if yes %}a{% endif %}\n\n", "x\r\n{% if yes %}\r\ny\r\n{% endif %}\r\nz", "{{ n }}\n", "{{ n }}\n\n", "  {#- x #}\n  {# y +#}\n z", "  {%+ raw %} a {% endraw +%}\nb",
    "{% generation %}a{{ s }}{% endgeneration %}b", "a\n  {% generation %}\n{{ s }}\n  {% endgeneration %}\nb", "{% set x=1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}",
    "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a': {}}}}", "{{ '}}' }}{{ \"%}\" }}", "{% if '%}' == '%}' %}a{% endif %}", "{{", "{{ }}", "{% if %}", "{% endif %}", "{% for %}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{% nope %}", "{# open", "{% raw %}abc", "{{ 'open }}", "{% if yes %}a", "{{ a b }}", "{{ 1 2 }}", "{% set %}", "{% set 1 = 2 %}", "{% break %}",
    "{% for x in l %}{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}", "{%- for m in people -%}\n{{ m.name }}\n{%- endfor -%}", "{{ people[0].name ~ '\\n' }}{{ '\\t' }}|", "{% set x = people|selectattr('age','eq',25)|first %}{{ x.name }}",
    "{% for x in l|sort %}{{ x }}{% endfor %}", "{% for x in l[::-1] %}{{ x }}{% endfor %}", "{% for x in d.three + [9] %}{{ x }}{% endfor %}", "{% for a in [1,2] if a is odd %}{{ a }}{% endfor %}", "{% if s and not e or nil is none %}y{% endif %}",
    "{{ s if s is string else s|tojson }}", "{% set x = {'a': s, 'b': [u]} %}{{ x|tojson }}{{ x }}", "{% set x = [] %}{% for i in l %}{% set x = x + [i] %}{% endfor %}{{ x }}", "{% set ns = namespace(x=[]) %}{% for i in l %}{% set ns.x = ns.x + [i] %}{% endfor %}{{ ns.x }}",
    "{% set g = l|map('string') %}{{ g|list }}{{ g|list }}", "{% set g = d|items %}{% for k, v in g %}{{ k }}{% endfor %}{{ g|list }}", "{{ loop }}", "{% for x in l %}{{ loop }}{% endfor %}", "{% for x in people recursive %}{% endfor %}x" if False else "{{ 1 }}",
    "{% macro a() %}{% for i in [1,2] %}{{ i }}{% if i == 1 %}{% continue %}{% endif %}!{% endfor %}{% endmacro %}{{ a() }}", "{% for x in [1,2,3] %}{% set x = x * 2 %}{{ x }}{% endfor %}", "{{ m(1) if m is defined else 'no m' }}", "{% set _ = 1 %}{{ _ }}", "{% set héllo = 1 %}{{ héllo }}",
    "{{ f(*l) if f is callable else dict(*[[('a', 1)]], **{'b': 2}) }}", "{% macro m(a, b, c) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ m(*l) }}{{ m(1, **{'c': 3, 'b': 2}) }}", "{% if yes %}{% set v = 1 %}{% endif %}{{ v }}", "{% for x in 'ab' %}{{ loop.nextitem|default('end') }}{% endfor %}",
]
