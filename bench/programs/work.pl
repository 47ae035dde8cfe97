# Work for perl that allocates: hashes of lists, strings that grow, sorting, matching. Prints counts
# that depend on every step; they are the same under any allocator.
use strict;
use warnings;

my ($seed, $sum) = (42, 0);

sub next_number {
    $seed = ($seed * 1103515245 + 12345) % 2147483648;
    return $seed >> 8;
}

my %words;
for my $i (1 .. 120_000) {
    my $word = 'w' . (next_number() % 30_000);
    push @{ $words{$word} }, "line $i of " . ('x' x (next_number() % 60));
    delete $words{ 'w' . (next_number() % 30_000) } if $i % 3 == 0;
}
for my $word (sort keys %words) {
    $sum = ($sum * 31 + length(join ',', @{ $words{$word} })) % 1_000_003;
}
my $text = join "\n", map { join ' ', @{ $words{$_} } } sort keys %words;
my $matches = () = $text =~ /line \d*7 of x+/g;
my @parts = sort { $a cmp $b } split /\s+/, $text;
for my $round (1 .. 30) {
    my @copy = map { { name => $_, length => length $_ } } @parts[0 .. 5_000];
    $sum = ($sum + scalar grep { $_->{length} > $round } @copy) % 1_000_003;
}
print scalar(keys %words), " $matches ", scalar(@parts), " $sum\n";
