my %h; for my $i (1..2000) { $h{"word$i"} .= "x" x ($i % 50); } my @k = sort { $h{$a} cmp $h{$b} } keys %h; my %g; for (keys %h) { push @{$g{length $h{$_}}}, $_ } print scalar(@k), "\n";
